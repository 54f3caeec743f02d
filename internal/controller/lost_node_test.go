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
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/lifecycle"
)

// TestLostNode checks that a restart waits for terminating pods, but not for a node that does not
// respond.
func TestLostNode(t *testing.T) {
	job := newRestartingJob(t)
	job.Status.Terminating = ptr.To[int32](1)
	const gracePeriod = 30 * time.Second
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:                  "team",
			Name:                       "train-0",
			Labels:                     map[string]string{gang.LabelGang: "train", gang.LabelAttempt: "0"},
			Finalizers:                 []string{"example.com/lost"},
			DeletionTimestamp:          ptr.To(metav1.NewTime(testStartTime.Add(gracePeriod))),
			DeletionGracePeriodSeconds: ptr.To(int64(gracePeriod.Seconds())),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	w := newTestCluster(t, job, pod)
	expectPhase := func(want lifecycle.Phase) {
		t.Helper()
		var now batchv1.Job
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
			t.Fatal(err)
		}
		got := lifecycle.ReadPhase(gang.Workload{Job: &now})
		if got != want || *now.Spec.Suspend != (want == lifecycle.Restarting) {
			t.Errorf("after %s: phase %s, suspended %v; want %s", w.clock.Since(testStartTime), got, *now.Spec.Suspend, want)
		}
	}
	req := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.clock.SetTime(testStartTime.Add(gracePeriod))
	if after := w.reconcileOnce(t, req); after != attempt.TerminationTimeout {
		t.Errorf("the next pass is due in %s, want %s", after, attempt.TerminationTimeout)
	}
	expectPhase(lifecycle.Restarting)
	w.clock.SetTime(testStartTime.Add(gracePeriod + attempt.TerminationTimeout))
	w.reconcileOnce(t, req)
	expectPhase(lifecycle.Pending)
	if now := (&batchv1.Job{}); w.Get(
		t.Context(),
		client.ObjectKeyFromObject(job),
		now,
	) != nil || now.Spec.Template.Labels[gang.LabelAttempt] != "1" {
		t.Errorf("labels of the template: %v", now.Spec.Template.Labels)
	}
}
