package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// TestLostNode: a gang waits for its pods to end, but not for a node that does not answer any more.
func TestLostNode(t *testing.T) {
	about := meta("train", "pytorch", "", "")
	delete(about.Labels, gang.LabelRole)
	job := admit(t, &batchv1.Job{ObjectMeta: about, Spec: one()}).(*batchv1.Job)
	text, err := gang.Status{Phase: gang.Restarting, Reason: gang.ReasonGangRestarting, Since: began, Attempt: 1, Begun: began, Fell: began,
		Cause: &gang.Fall{Reason: gang.FallDeleted, At: began}, Stopped: true}.Text()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(gang.Restarting)
	job.Spec.Suspend = ptr.To(true)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	job.Status.Terminating = ptr.To[int32](1)
	const graceful = 30 * time.Second
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-0", Labels: map[string]string{gang.LabelGang: "train", gang.LabelAttempt: "0"},
			Finalizers:        []string{"example.com/lost"},
			DeletionTimestamp: ptr.To(metav1.NewTime(began.Add(graceful))), DeletionGracePeriodSeconds: ptr.To(int64(graceful.Seconds())),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	w := newWorld(t, job, pod)
	phase := func(want gang.Phase) {
		t.Helper()
		var now batchv1.Job
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
			t.Fatal(err)
		}
		if got := gang.PhaseOf(gang.Workload{Job: &now}); got != want || *now.Spec.Suspend != (want == gang.Restarting) {
			t.Errorf("after %s: %s, suspended %v; want %s", w.clock.Since(began), got, *now.Spec.Suspend, want)
		}
	}
	req := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.clock.SetTime(began.Add(graceful))
	if after := w.look(t, req); after != overdue {
		t.Errorf("the next look is due in %s, want %s", after, overdue)
	}
	phase(gang.Restarting)
	w.clock.SetTime(began.Add(graceful + overdue))
	w.look(t, req)
	phase(gang.Pending)
	if now := (&batchv1.Job{}); w.Get(t.Context(), client.ObjectKeyFromObject(job), now) != nil || now.Spec.Template.Labels[gang.LabelAttempt] != "1" {
		t.Errorf("the template's labels are %v", now.Spec.Template.Labels)
	}
}
