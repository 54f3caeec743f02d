package controller

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// newRunningJob returns a Job of two ranks whose pods the tests create.
func newRunningJob(t *testing.T) *batchv1.Job {
	t.Helper()
	about := newObjectMeta("train", "pytorch", "", "")
	delete(about.Labels, gang.LabelRole)
	spec := singlePodJobSpec()
	spec.Parallelism, spec.Completions = ptr.To[int32](2), ptr.To[int32](2)
	job := admitObject(t, &batchv1.Job{ObjectMeta: about, Spec: spec}).(*batchv1.Job)
	job.Status.StartTime = ptr.To(metav1.NewTime(testStartTime))
	return job
}

// suspendAndResume suspends a gang for an hour in which a pod remains that failed during the suspension.
func (w *testCluster) suspendAndResume(t *testing.T, pod string, observesSuspension bool) {
	t.Helper()
	req := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	job, _ := w.getJob(t, "train")
	failed := newJobPod(job, 1)
	failed.Name, failed.CreationTimestamp = pod, metav1.NewTime(w.clock.Now())
	failed.Labels[gang.LabelAttempt] = job.Spec.Template.Labels[gang.LabelAttempt]
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	failed.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "trainer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", FinishedAt: metav1.NewTime(w.clock.Now()),
		}},
	}}}
	if err := w.Create(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	update := func(suspend bool) {
		job, _ := w.getJob(t, "train")
		job.Spec.Suspend = &suspend
		if err := w.Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		job.Status.Conditions = nil
		if suspend && observesSuspension {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
		}
		if err := w.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.reconcileOnce(t, req)
		}
	}
	update(true)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	update(false)
}

// TestFailedPodOfSuspendedGang checks that a pod that failed before a suspension neither restarts nor fails
// the gang after it, however often the gang is suspended. A suspension deletes only active pods.
func TestFailedPodOfSuspendedGang(t *testing.T) {
	for name, observesSuspension := range map[string]bool{
		"Rollcall sets the number of the attempt before the user resumes the Job": true,
		"user resumes the Job with its former number":                             false,
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, newRunningJob(t))
			for i := range 4 {
				w.suspendAndResume(t, fmt.Sprintf("train-1-%d", i), observesSuspension)
				job, status := w.getJob(t, "train")
				if status.Phase != lifecycle.Pending || status.Restarts != 0 || status.Attempt != int32(i+1) {
					t.Fatalf("after suspension %d: %s, %d restarts, attempt %d", i+1, status.Phase, status.Restarts, status.Attempt)
				}
				isLabeled := job.Spec.Template.Labels[gang.LabelAttempt] == fmt.Sprint(status.Attempt)
				if isLabeled != observesSuspension {
					t.Errorf("the template has the labels %v", job.Spec.Template.Labels)
				}
			}
		})
	}
}
