package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestFailureOfCompletingGang checks that a worker that fails because its master has succeeded neither
// restarts nor fails the gang, before the Job controller has completed the Job of the master.
func TestFailureOfCompletingGang(t *testing.T) {
	for name, c := range map[string]struct {
		maxRestarts string
		change      func(pod *corev1.Pod)
		want        lifecycle.Phase
	}{
		"gang without restarts keeps running": {maxRestarts: "0", want: lifecycle.Running},
		"gang with restarts keeps running":    {maxRestarts: "3", want: lifecycle.Running},
		"drained master restarts the gang": {
			maxRestarts: "3", change: podtest.Deleted(0), want: lifecycle.Restarting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			master.Annotations[gang.AnnotationMaxRestarts] = c.maxRestarts
			worker.Annotations[gang.AnnotationMaxRestarts] = c.maxRestarts
			succeeded, failed := newJobPod(master, 0), newFailedPod(worker)
			succeeded.Labels[gang.LabelAttempt], succeeded.Finalizers = "0", []string{batchv1.JobTrackingFinalizer}
			if c.change != nil {
				c.change(succeeded)
			}
			w := newTestCluster(t, master, worker, succeeded, failed)
			w.clock.SetTime(testStartTime.Add(time.Minute))
			w.reconcileOnce(t, trainRequest)
			job, status := w.getJob(t, "train-master")
			if status.Phase != c.want || c.want == lifecycle.Running && !isUntouched(job, 1) {
				t.Fatalf("phase %s, want %s; first failure %v", status.Phase, c.want, status.FirstFailure)
			}
			if c.want != lifecycle.Running {
				return
			}
			job.Status = batchv1.JobStatus{Succeeded: 1, CompletedIndexes: "0", Conditions: []batchv1.JobCondition{{
				Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
			}}}
			if err := w.Status().Update(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			w.reconcileOnce(t, trainRequest)
			if _, status := w.getJob(t, "train-master"); status.Phase != lifecycle.Succeeded {
				t.Errorf("after the master is complete, the phase is %s", status.Phase)
			}
		})
	}
}

// TestJobPastDeadline checks that a Job past its activeDeadlineSeconds is about to fail, so that the deletion of its
// pods is not a failure, and that a Job that completed in time does not prevent the failures of its gang.
func TestJobPastDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		deadline     int64
		completed    bool
		wantRestarts int32
		wantFailed   bool
	}{
		"the deadline has passed":                        {deadline: 3590},
		"the deadline passes later":                      {deadline: 7200, wantRestarts: 1},
		"the Job completed before its deadline":          {deadline: 7200, completed: true, wantFailed: true},
		"the Job completed, and its deadline has passed": {deadline: 3590, completed: true, wantFailed: true},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			worker.Spec.ActiveDeadlineSeconds = &c.deadline
			worker.Status.StartTime = ptr.To(metav1.NewTime(testStartTime))
			if c.completed {
				worker.Status.Conditions = []batchv1.JobCondition{{
					Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(testStartTime.Add(5 * time.Minute)),
				}}
			}
			w := newTestCluster(t, master, worker, newFailedPod(master))
			for _, passed := range []time.Duration{time.Hour, time.Hour + 4*time.Second} { // the gang fails after 3 s
				w.clock.SetTime(testStartTime.Add(passed))
				w.reconcileOnce(t, trainRequest)
			}
			_, status := w.getJob(t, "train-master")
			if isFailed := status.Phase == lifecycle.Failed; status.Restarts != c.wantRestarts || isFailed != c.wantFailed {
				t.Errorf("phase %s, %d restarts, first failure %v", status.Phase, status.Restarts, status.FirstFailure)
			}
		})
	}
}
