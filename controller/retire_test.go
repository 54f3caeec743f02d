package controller

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// TestRetire: what is written to a Job whose gang is done without it is what the API server takes (kubernetes
// pkg/apis/batch/validation): maxFailedIndexes at most completions, the indexes of a successPolicy below them.
func TestRetire(t *testing.T) {
	policy := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0-1")}}}
	for name, c := range map[string]struct {
		reason      string
		job         batchv1.JobSpec
		completions int32
		maxFailed   *int32
	}{
		"plain":            {"it is complete", batchv1.JobSpec{}, 0, nil},
		"suspended":        {"a suspended Job is not", batchv1.JobSpec{Suspend: ptr.To(true)}, 0, nil},
		"failed indexes":   {"", batchv1.JobSpec{MaxFailedIndexes: ptr.To[int32](2)}, 0, ptr.To[int32](0)},
		"success policy":   {"its pods go, at least", batchv1.JobSpec{SuccessPolicy: policy}, 4, nil},
		"both of the user": {"", batchv1.JobSpec{SuccessPolicy: policy, MaxFailedIndexes: ptr.To[int32](2)}, 4, ptr.To[int32](2)},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Parallelism, c.job.Completions = ptr.To[int32](4), ptr.To[int32](4)
			w := gang.Workload{Job: &batchv1.Job{Spec: c.job}}
			if !retire(w) {
				t.Fatal("nothing was changed")
			}
			spec := w.Job.Spec
			if *spec.Parallelism != 0 || *spec.Completions != c.completions || *spec.Suspend || !ptr.Equal(spec.MaxFailedIndexes, c.maxFailed) {
				t.Errorf("%s: %d of %d, suspended %v, failed %v", c.reason, *spec.Parallelism, *spec.Completions, *spec.Suspend, spec.MaxFailedIndexes)
			}
			if retire(w) {
				t.Error("another look writes again")
			}
		})
	}
}

// TestEndOfOneThatGoes: a launcher with a time to live of 0 is told to go when it ends, and its workers end with it; one that
// is deleted before its end leaves them as they are.
func TestEndOfOneThatGoes(t *testing.T) {
	for ended, want := range map[bool]int32{true: 0, false: 3} {
		going := launcher(t)
		going.Finalizers, going.DeletionTimestamp = []string{metav1.FinalizerDeleteDependents}, ptr.To(metav1.NewTime(began))
		if ended {
			going.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		w := newWorld(t, going, worker(t))
		w.look(t, train)
		var workers appsv1.StatefulSet
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train-worker"}, &workers); err != nil {
			t.Fatal(err)
		}
		if *workers.Spec.Replicas != want {
			t.Errorf("the launcher had ended: %v; %d workers, want %d", ended, *workers.Spec.Replicas, want)
		}
	}
}
