package controller

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestCompleteJobWithoutPods checks that the API server accepts the completed Job (kubernetes
// pkg/apis/batch/validation): maxFailedIndexes is at most completions, and the indexes of a
// successPolicy are lower than completions.
func TestCompleteJobWithoutPods(t *testing.T) {
	policy := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0-1")}}}
	for name, c := range map[string]struct {
		job                  batchv1.JobSpec
		wantCompletions      int32
		wantMaxFailedIndexes *int32
	}{
		"Job without options":      {job: batchv1.JobSpec{}},
		"suspended Job is resumed": {job: batchv1.JobSpec{Suspend: ptr.To(true)}},
		"maxFailedIndexes is limited to completions": {
			job:                  batchv1.JobSpec{MaxFailedIndexes: ptr.To[int32](2)},
			wantMaxFailedIndexes: ptr.To[int32](0),
		},
		"completions are kept with a successPolicy": {
			job:             batchv1.JobSpec{SuccessPolicy: policy},
			wantCompletions: 4,
		},
		"successPolicy and maxFailedIndexes are kept": {
			job:                  batchv1.JobSpec{SuccessPolicy: policy, MaxFailedIndexes: ptr.To[int32](2)},
			wantCompletions:      4,
			wantMaxFailedIndexes: ptr.To[int32](2),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Parallelism, c.job.Completions = ptr.To[int32](4), ptr.To[int32](4)
			w := gang.Workload{Job: &batchv1.Job{Spec: c.job}}
			if !completeJobWithoutPods(w) {
				t.Fatal("the Job was not changed")
			}
			spec := w.Job.Spec
			if *spec.Parallelism != 0 || *spec.Completions != c.wantCompletions || *spec.Suspend || !ptr.Equal(
				spec.MaxFailedIndexes,
				c.wantMaxFailedIndexes,
			) {
				t.Errorf(
					"parallelism %d, completions %d, suspended %v, maxFailedIndexes %v",
					*spec.Parallelism,
					*spec.Completions,
					*spec.Suspend,
					spec.MaxFailedIndexes,
				)
			}
			if completeJobWithoutPods(w) {
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

// TestForgedSize checks that the manager does not scale a StatefulSet to a size that its user wrote into
// the record of the injection.
func TestForgedSize(t *testing.T) {
	for name, c := range map[string]struct {
		size string
		want int32
	}{
		"size of the injection":                         {size: `"replicas":2`, want: 2},
		"size that the template does not contain":       {size: `"replicas":5000`, want: 0},
		"negative size":                                 {size: `"replicas":-1`, want: 0},
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
			if err := setStatusMetadata(gang.Workload{StatefulSet: set}, status); err != nil {
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
