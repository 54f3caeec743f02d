package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestCompleteMember checks the spec of a member whose gang succeeded. Its pods are not needed any more. The
// API server requires (kubernetes pkg/apis/batch/validation) that maxFailedIndexes is at most completions,
// and that the indexes of a successPolicy are lower than completions.
func TestCompleteMember(t *testing.T) {
	policy := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0-1")}}}
	zero, four := ptr.To[int32](0), ptr.To[int32](4)
	complete := batchv1.JobSpec{Parallelism: zero, Completions: zero, Suspend: ptr.To(false)}
	limited := complete
	limited.MaxFailedIndexes = zero
	for name, c := range map[string]struct{ job, want batchv1.JobSpec }{
		"Job without options completes": {want: complete},
		"suspended Job completes":       {job: batchv1.JobSpec{Suspend: ptr.To(true)}, want: complete},
		"maxFailedIndexes does not exceed the completions": {
			job:  batchv1.JobSpec{MaxFailedIndexes: ptr.To[int32](2)},
			want: limited,
		},
		"Job with a successPolicy is suspended, because it cannot complete": {
			job:  batchv1.JobSpec{SuccessPolicy: policy},
			want: batchv1.JobSpec{SuccessPolicy: policy, Parallelism: four, Completions: four, Suspend: ptr.To(true)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Parallelism, c.job.Completions = four, four
			w := gang.Workload{Job: &batchv1.Job{Spec: c.job}}
			status, last := lifecycle.Status{}, lifecycle.Status{}
			if !completeMember(w, &status, last) {
				t.Fatal("the Job was not changed")
			}
			if diff := cmp.Diff(c.want, w.Job.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if completeMember(w, &lifecycle.Status{}, status) {
				t.Error("a second pass changes the Job again")
			}
		})
	}
}

// TestCompletionOfDeletedLauncher checks that a launcher that is deleted after it completed, as
// with a time to live of 0, completes its gang. A launcher that is deleted earlier does not.
func TestCompletionOfDeletedLauncher(t *testing.T) {
	for completed, want := range map[bool]int32{true: 0, false: 3} {
		deleted := newLauncherJob(t)
		deleted.Finalizers, deleted.DeletionTimestamp = []string{
			metav1.FinalizerDeleteDependents,
		}, ptr.To(metav1.NewTime(testStartTime))
		if completed {
			deleted.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		w := newTestCluster(t, deleted, newWorkerStatefulSet(t))
		w.reconcileOnce(t, trainRequest)
		var workers appsv1.StatefulSet
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train-worker"}, &workers); err != nil {
			t.Fatal(err)
		}
		if *workers.Spec.Replicas != want {
			t.Errorf("launcher completed %v: %d workers, want %d", completed, *workers.Spec.Replicas, want)
		}
	}
}

// TestAttackForgedSize checks that the manager does not scale a StatefulSet to a size that its user wrote into
// the record of the injection.
func TestAttackForgedSize(t *testing.T) {
	for name, c := range map[string]struct {
		size string
		want int32
	}{
		"size of the injection":                         {size: `"replicas":2`, want: 2},
		"size that the template does not contain":       {size: `"replicas":5000`, want: 0},
		"size that is lower than the size of the ranks": {size: `"replicas":1`, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			set := admitObject(t, &appsv1.StatefulSet{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
				Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Template: *podTemplate.DeepCopy()},
			}).(*appsv1.StatefulSet)
			set.Spec.Replicas = ptr.To[int32](0)
			record := set.Annotations[gang.AnnotationInjected]
			set.Annotations[gang.AnnotationInjected] = strings.Replace(record, `"replicas":2`, c.size, 1)
			status := lifecycle.Status{State: lifecycle.State{
				Phase: lifecycle.Restarting, Restarts: 1, Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
			}}
			if err := status.WriteTo(gang.Workload{StatefulSet: set}); err != nil {
				t.Fatal(err)
			}
			w := newTestCluster(t, set)
			for range 2 {
				w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"})
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			if *set.Spec.Replicas != c.want {
				t.Errorf("%d replicas, want %d", *set.Spec.Replicas, c.want)
			}
		})
	}
}
