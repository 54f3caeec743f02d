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
			if delay := w.reconcileOnce(t, trainRequest); delay != (3 * time.Second) {
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
			w.clock.SetTime(testStartTime.Add(2*time.Minute + (3 * time.Second)))
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
			if isRepeated := delay == lifecycle.StaleCacheDelay; isRepeated != (c.want == "") {
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

// TestCompletedJobIsDeleted checks that a Job that completed before its peers and that its time to live deleted
// still counts, so that the gang succeeds when its last Job completes.
func TestCompletedJobIsDeleted(t *testing.T) {
	first, second := newMasterAndWorkers(t)
	w := newTestCluster(t)
	for _, job := range []*batchv1.Job{first, second} {
		job.Annotations[gang.AnnotationSuccessPolicy] = gang.SuccessPolicyAll
		if err := w.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	complete := func(job *batchv1.Job) {
		t.Helper()
		have, _ := w.getJob(t, job.Name)
		have.Status.Active, have.Status.Ready, have.Status.Succeeded = 0, nil, *job.Spec.Completions
		have.Status.Conditions = []batchv1.JobCondition{{
			Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testStartTime),
		}}
		if err := w.Status().Update(t.Context(), have); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want lifecycle.Phase, reason gang.Reason) {
		t.Helper()
		for range 2 {
			w.reconcileOnce(t, trainRequest)
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
		}
		if _, status := w.getJob(t, second.Name); status.Phase != want || status.Reason != reason {
			t.Fatalf("the gang is %s with the reason %s, want %s", status.Phase, status.Reason, want)
		}
	}
	expect(lifecycle.Running, gang.ReasonGangRunning)
	complete(first)
	expect(lifecycle.Running, gang.ReasonGangRunning)
	if err := w.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	expect(lifecycle.Running, gang.ReasonGangRunning)
	complete(second)
	expect(lifecycle.Succeeded, gang.ReasonGangSucceeded)
}

// TestFailureOfStalePod checks that a failed pod is one failure if the cache contains the pod as it was before its Job
// counted it. The real failure uses up the restarts, and a second failure is not invented.
func TestFailureOfStalePod(t *testing.T) {
	master, worker := newMasterAndWorkers(t)
	for _, job := range []*batchv1.Job{master, worker} {
		job.Annotations[gang.AnnotationMaxRestarts] = "0"
	}
	failed := newFailedPod(worker)
	failed.Status.Phase = corev1.PodFailed
	failed.Status.ContainerStatuses[0].State = failed.Status.ContainerStatuses[0].LastTerminationState
	failed.Finalizers = []string{batchv1.JobTrackingFinalizer}
	w := newTestCluster(t, master, worker, failed)
	w.clock.SetTime(testStartTime.Add(60 * time.Second))
	w.reconcileOnce(t, trainRequest) // decides, and waits for the master
	job, _ := w.getJob(t, "train-worker")
	job.Status.Failed = 1
	if err := w.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(testStartTime.Add(64 * time.Second))
	w.reconcileOnce(t, trainRequest)
	if _, status := w.getJob(t, "train-master"); status.Phase == lifecycle.Restarting {
		t.Fatalf("the gang restarts: %v", status.FirstFailure)
	}
	var pod corev1.Pod
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(failed), &pod); err != nil {
		t.Fatal(err)
	}
	pod.Finalizers = nil // the cache contains what the Job controller wrote
	if err := w.Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	for _, passed := range []time.Duration{65 * time.Second, 70 * time.Second} {
		w.clock.SetTime(testStartTime.Add(passed))
		w.reconcileOnce(t, trainRequest)
	}
	_, status := w.getJob(t, "train-master")
	if status.Phase != lifecycle.Failed || status.FirstFailure == nil || status.FirstFailure.ExitCode == 0 {
		t.Errorf("phase %s, first failure %v, want the exit of the container", status.Phase, status.FirstFailure)
	}
}
