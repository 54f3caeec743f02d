package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestExternallyManagedJob checks that a Job of another controller, such as MultiKueue, is only
// observed.
func TestExternallyManagedJob(t *testing.T) {
	for manager, suspends := range map[string]bool{batchv1.JobControllerName: true, "kueue.x-k8s.io/multikueue": false} {
		job := newJobWithStatus(t, lifecycle.Status{
			Reason: gang.ReasonGangRunning,
			State: lifecycle.State{
				Phase:              lifecycle.Running,
				LastTransitionTime: testStartTime,
				Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: testStartTime},
			},
		}, func(j *batchv1.Job) {
			j.Spec.ManagedBy = &manager
			j.Annotations = map[string]string{gang.AnnotationRestartPolicy: "gang"}
		})
		job.Status = batchv1.JobStatus{
			Active: 1,
			Failed: 1,
			Ready:  ptr.To[int32](1),
		} // the other controller writes the status
		w := newTestCluster(t, job)
		w.reconcileOnce(t, trainJobRequest)
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			t.Fatal(err)
		}
		if got := *job.Spec.Suspend; got != suspends {
			t.Errorf("managed by %s: suspended %v", manager, got)
		}
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type:   batchv1.JobFailed,
			Status: corev1.ConditionTrue,
			Reason: "There",
		})
		if err := w.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		w.reconcileOnce(t, trainJobRequest)
		if err := w.Get(
			t.Context(),
			client.ObjectKeyFromObject(job),
			job,
		); err != nil ||
			lifecycle.ReadPhase(gang.Workload{Job: job}) != lifecycle.Failed || job.Spec.ActiveDeadlineSeconds != nil {
			t.Errorf(
				"managed by %s: phase %s, activeDeadlineSeconds %v; %v",
				manager,
				lifecycle.ReadPhase(gang.Workload{Job: job}),
				job.Spec.ActiveDeadlineSeconds,
				err,
			)
		}
	}
}
