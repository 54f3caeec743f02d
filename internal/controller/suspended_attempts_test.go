package controller

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
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

// TestPodDeletedAfterResumption checks that the deletion of a pod is a disruption if a queue has just resumed the
// gang, although the status still describes the suspension.
func TestPodDeletedAfterResumption(t *testing.T) {
	for name, c := range map[string]struct {
		attempt string // of the pod
		want    lifecycle.Phase
	}{
		"a pod that was created after the resumption": {attempt: "1", want: lifecycle.Restarting},
		"a pod that the suspension terminates":        {attempt: "0", want: lifecycle.Suspended},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRunningJob(t)
			text, err := lifecycle.Status{State: lifecycle.State{
				Phase: lifecycle.Suspended, Bookkeeping: lifecycle.Bookkeeping{Attempt: 1, AttemptStartTime: testStartTime},
			}}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			job.Annotations[gang.AnnotationStatus] = text
			w := newTestCluster(t, job)
			stored, _ := w.getJob(t, "train")
			pod := newJobPod(stored, 1)
			pod.Labels[gang.LabelAttempt] = c.attempt
			pod.CreationTimestamp = metav1.NewTime(testStartTime.Add(time.Minute))
			pod.Finalizers, pod.Status.Phase = []string{batchv1.JobTrackingFinalizer}, corev1.PodRunning
			pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
			if err := w.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if err := w.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.clock.SetTime(clock.RealClock{}.Now()) // the fake client sets the time of the deletion
			for range 3 {
				w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			}
			if _, status := w.getJob(t, "train"); status.Phase != c.want {
				t.Errorf("phase %s, want %s; first failure %v", status.Phase, c.want, status.FirstFailure)
			}
		})
	}
}
