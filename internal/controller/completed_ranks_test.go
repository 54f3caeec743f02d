package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestRecordCompletedRanks checks that a gang records the ranks that completed, with few writes, and that a
// finished pod may then disappear with its node while no manager runs. A rank that nobody saw complete is lost.
func TestRecordCompletedRanks(t *testing.T) {
	req := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	job := newRunningJob(t)
	job.Status.Ready, job.Status.Active = ptr.To[int32](2), 2
	pods := []*corev1.Pod{newJobPod(job, 0), newJobPod(job, 1)}
	for _, pod := range pods {
		pod.Status.Phase, pod.Labels[gang.LabelAttempt] = corev1.PodRunning, "0"
	}
	w := newTestCluster(t, job, pods[0], pods[1])
	now := testStartTime
	expect := func(after time.Duration, phase lifecycle.Phase, ranks string) {
		t.Helper()
		now = now.Add(after)
		w.clock.SetTime(now)
		w.reconcileOnce(t, req)
		if _, status := w.getJob(t, "train"); status.Phase != phase || status.CompletedRanks != ranks {
			t.Fatalf("phase %s with the completed ranks %q, want %s, %q", status.Phase, status.CompletedRanks, phase, ranks)
		}
	}
	complete := func(ready int32, indexes string) {
		t.Helper()
		have, _ := w.getJob(t, "train")
		have.Status.Ready, have.Status.Active, have.Status.Succeeded = &ready, ready, 2-ready
		have.Status.CompletedIndexes = indexes
		if err := w.Status().Update(t.Context(), have); err != nil {
			t.Fatal(err)
		}
	}
	expect(0, lifecycle.Running, lifecycle.NoRanks)
	pods[0].Status.Phase = corev1.PodSucceeded
	if err := w.Status().Update(t.Context(), pods[0]); err != nil {
		t.Fatal(err)
	}
	complete(1, "0")
	expect(time.Minute, lifecycle.Running, lifecycle.NoRanks)
	expect(29*time.Second, lifecycle.Running, lifecycle.NoRanks)
	expect(time.Second, lifecycle.Running, "0")

	w.sessions = sessions{} // another manager takes over after the pod has disappeared
	if err := w.Delete(t.Context(), pods[0]); err != nil {
		t.Fatal(err)
	}
	expect(time.Second, lifecycle.Running, "0")
	if err := w.Delete(t.Context(), pods[1]); err != nil { // drained meanwhile, and exited with code 0
		t.Fatal(err)
	}
	complete(0, "0-1")
	expect(time.Second, lifecycle.Restarting, "0")
	if _, status := w.getJob(t, "train"); status.Disruptions != 1 || status.Restarts != 0 {
		t.Errorf("%d disruptions, %d restarts", status.Disruptions, status.Restarts)
	}
}

// TestResetJobOfQueue checks that the completed indexes of a Job that a queue suspended are reset, so that
// the queue resumes all ranks.
func TestResetJobOfQueue(t *testing.T) {
	job := newRunningJob(t)
	job.Labels[gang.LabelQueueName] = "team"
	job.Spec.Suspend = ptr.To(true)
	job.Status.StartTime, job.Status.Succeeded, job.Status.CompletedIndexes = nil, 1, "1"
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	w := newTestCluster(t, job, newJobPod(job, 1))
	for range 2 {
		w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
	}
	var have batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &have); err != nil {
		t.Fatal(err)
	}
	if have.Status.CompletedIndexes != "" || have.Spec.Template.Labels[gang.LabelAttempt] != "0" {
		t.Errorf("completed indexes %q, labels of the template %v", have.Status.CompletedIndexes, have.Spec.Template.Labels)
	}
	status := lifecycle.ReadStatus(gang.Workload{Job: &have})
	if status.Phase != lifecycle.Suspended || status.Attempt != 1 {
		t.Errorf("phase %s, attempt %d", status.Phase, status.Attempt)
	}
}
