package controller

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestFailureWaitsForCompletion checks that a gang without restarts does not fail because a worker lost the
// master, if the success of the master is reported within seconds.
func TestFailureWaitsForCompletion(t *testing.T) {
	for name, c := range map[string]struct {
		masterCompletes bool
		want            lifecycle.Phase
	}{
		"the master completes": {masterCompletes: true, want: lifecycle.Succeeded},
		"the master runs on":   {want: lifecycle.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			for _, job := range []*batchv1.Job{master, worker} {
				job.Annotations[gang.AnnotationMaxRestarts] = "0"
			}
			w := newTestCluster(t, master, worker, newFailedPod(worker))
			w.clock.SetTime(testStartTime.Add(2 * time.Minute))
			if delay := w.reconcileOnce(t, trainRequest); delay != completionGracePeriod {
				t.Errorf("the next pass is due in %s", delay)
			}
			job, status := w.getJob(t, "train-master")
			if status.Phase != "" || job.Spec.ActiveDeadlineSeconds != nil {
				t.Fatalf("the gang is %s before the end of the grace period", status.Phase)
			}
			if c.masterCompletes {
				job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
				if err := w.Status().Update(t.Context(), job); err != nil {
					t.Fatal(err)
				}
			}
			w.clock.SetTime(testStartTime.Add(2*time.Minute + completionGracePeriod))
			w.reconcileOnce(t, trainRequest)
			if _, status := w.getJob(t, "train-master"); status.Phase != c.want {
				t.Errorf("the gang is %s, want %s", status.Phase, c.want)
			}
		})
	}
}

// TestStaleCacheDecidesNothing checks that a gang is neither failed nor restarted over a cache that does not
// contain the suspension of a member.
func TestStaleCacheDecidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		isStale, isDeleted bool
		want               lifecycle.Phase
	}{
		"the cache is current":                    {want: lifecycle.Restarting},
		"the cache does not contain a suspension": {isStale: true},
		"the cache does not contain a deletion":   {isDeleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRunningJob(t)
			pod := newJobPod(job, 1)
			pod.Status.Phase, pod.Finalizers = corev1.PodRunning, []string{"example.com/keep"}
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(testStartTime.Add(time.Minute)))
			w := newTestCluster(t, job, pod)
			w.clock.SetTime(testStartTime.Add(time.Minute))
			w.APIReader = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Get: func(
				ctx context.Context, live client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption,
			) error {
				if c.isDeleted {
					key.Name = "deleted"
				}
				err := live.Get(ctx, key, o)
				if c.isStale {
					o.SetResourceVersion("newer")
				}
				return err
			}})
			delay := w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			if _, status := w.getJob(t, "train"); status.Phase != c.want {
				t.Errorf("the gang is %s, want %s", status.Phase, c.want)
			}
			if isRepeated := delay == staleCacheDelay; isRepeated != (c.want == "") {
				t.Errorf("the next pass is due in %s", delay)
			}
		})
	}
}

// TestFailureTargetEndsGang checks that a Job that fails ends its gang before its last pod has terminated.
func TestFailureTargetEndsGang(t *testing.T) {
	master, worker := newMasterAndWorkers(t)
	worker.Status.Conditions = []batchv1.JobCondition{{
		Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded",
	}}
	w := newTestCluster(t, master, worker)
	w.reconcileOnce(t, trainRequest)
	job, status := w.getJob(t, "train-master")
	if status.Phase != lifecycle.Failed || ptr.Deref(job.Spec.ActiveDeadlineSeconds, -1) != 0 {
		t.Errorf("the master is %s: %s", status.Phase, status.Message)
	}
}
