package controller

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestMissingMemberOfRestart checks that a restart that waits for a missing member is reported with its
// failure, and then with the reason MembersMissing.
func TestMissingMemberOfRestart(t *testing.T) {
	const missing = "train-worker (role worker, 3 pods)"
	master, worker := newMasterAndWorkers(t)
	master.Annotations[gang.AnnotationStartTimeout] = "10m"
	master.Status.StartTime = ptr.To(metav1.NewTime(testStartTime))
	w := newTestCluster(t, master)
	expect := func(after time.Duration, phase lifecycle.Phase, reason gang.Reason, message string) {
		t.Helper()
		w.clock.SetTime(testStartTime.Add(after))
		w.reconcileOnce(t, trainRequest)
		_, status := w.getJob(t, "train-master")
		if status.Phase != phase || status.Reason != reason || !strings.Contains(status.Message, message) {
			t.Fatalf("after %s: phase %s, reason %s: %s", after, status.Phase, status.Reason, status.Message)
		}
	}
	w.reconcileOnce(t, trainRequest)
	expect(10*time.Second, lifecycle.Pending, gang.ReasonMembersMissing, missing)
	expect(10*time.Minute, lifecycle.Restarting, gang.ReasonGangRestarting,
		"not all ranks were ready within 10m0s: rank 0: has no pod; waiting for "+missing)
	for range 2 {
		expect(11*time.Minute, lifecycle.Restarting, gang.ReasonMembersMissing, "Waiting for "+missing)
	}
	for _, event := range drainEvents(w.Recorder.(*events.FakeRecorder)) {
		if isWarning := strings.HasPrefix(event, "Warning "); isWarning != strings.Contains(event, "GangRestarting") {
			t.Errorf("unexpected Event %q", event)
		}
	}
	suspended, _ := w.getJob(t, "train-master")
	suspended.Status.Conditions = append(suspended.Status.Conditions, batchv1.JobCondition{
		Type: batchv1.JobSuspended, Status: corev1.ConditionTrue,
	})
	suspended.Status.Active, suspended.Status.Ready = 0, nil
	if err := w.Status().Update(t.Context(), suspended); err != nil {
		t.Fatal(err)
	}
	worker.Status = batchv1.JobStatus{}
	if err := w.Create(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	expect(12*time.Minute, lifecycle.Restarting, gang.ReasonGangRestarting, "Restart 1 of")
}

// TestStartTimeoutOfSuspendedMember checks that an expired start timeout causes no passes while a member is
// suspended and another member is missing.
func TestStartTimeoutOfSuspendedMember(t *testing.T) {
	master, _ := newMasterAndWorkers(t)
	master.Annotations[gang.AnnotationStartTimeout] = "1m"
	master.Spec.Suspend = ptr.To(true)
	master.Status = batchv1.JobStatus{}
	w := newTestCluster(t, master)
	w.reconcileOnce(t, trainRequest)
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		if after := w.reconcileOnce(t, trainRequest); after > 0 && after < time.Minute {
			t.Errorf("the next pass is due in %s", after)
		}
	}
	if _, status := w.getJob(t, "train-master"); status.Phase != lifecycle.Pending || status.Restarts != 0 {
		t.Errorf("the gang is %s after %d restarts", status.Phase, status.Restarts)
	}
}
