package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// TestForeign: a Job that another controller runs, as MultiKueue does in another cluster, is watched alone.
func TestForeign(t *testing.T) {
	for manager, suspends := range map[string]bool{batchv1.JobControllerName: true, "kueue.x-k8s.io/multikueue": false} {
		job := told(t, gang.Status{Phase: gang.Running, Reason: gang.ReasonGangRunning, Since: began, Begun: began}, func(j *batchv1.Job) {
			j.Spec.ManagedBy = &manager
			j.Annotations = map[string]string{gang.AnnotationRestartPolicy: "gang"}
		})
		job.Status = batchv1.JobStatus{Active: 1, Failed: 1, Ready: ptr.To[int32](1)} // as it is told from there
		w := newWorld(t, job)
		w.look(t, trainJob)
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			t.Fatal(err)
		}
		if got := *job.Spec.Suspend; got != suspends {
			t.Errorf("run by %s, it is suspended: %v", manager, got)
		}
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "There"})
		if err := w.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		w.look(t, trainJob)
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || gang.PhaseOf(gang.Workload{Job: job}) != gang.Failed || job.Spec.ActiveDeadlineSeconds != nil {
			t.Errorf("run by %s, it is %s, and ended by %v; %v", manager, gang.PhaseOf(gang.Workload{Job: job}), job.Spec.ActiveDeadlineSeconds, err)
		}
	}
}
