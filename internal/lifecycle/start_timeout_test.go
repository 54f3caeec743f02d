package lifecycle_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestStartTimeoutOncePerAttempt checks that the start timeout does not apply to a gang whose
// ranks were all ready once, such as a StatefulSet that is scaled up. It applies again in the
// next attempt.
func TestStartTimeoutOncePerAttempt(t *testing.T) {
	timed := defaultPolicies
	timed.StartTimeout = 8 * time.Second
	oneReady := lifecycle.Observation{IsStatefulSet: true, Size: 2, ReadyPods: 1, ActivePods: 1}
	s := lifecycle.State{Phase: lifecycle.Running, Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0)}}
	for range 3 {
		if s = s.Next(timed, newSnapshot(oneReady, observedAt(60))); s.Phase != lifecycle.Pending || s.Restarts != 0 {
			t.Fatalf("phase %s after %d restarts, because of %v", s.Phase, s.Restarts, s.FirstFailure)
		}
		s = storeAndRead(t, s) // as after a restart of the manager
	}
	s = s.Next(timed, newSnapshot(oneReady, observedAt(61), withFailure))
	if s.Phase != lifecycle.Restarting || s.StartCompleted {
		t.Fatalf("phase %s after a failure, start completed: %v", s.Phase, s.StartCompleted)
	}
	s = s.Next(timed, newSnapshot(lifecycle.Observation{
		IsStatefulSet:       true,
		Size:                0,
		Suspended:           true,
		SuspendedByRollcall: true,
	}, withAllPodsTerminated, observedAt(62)))
	if s = s.Next(
		timed,
		newSnapshot(oneReady, observedAt(70)),
	); s.Restarts != 2 || s.FirstFailure.Reason != failure.ReasonStartTimeout {
		t.Errorf("phase %s after %d restarts, 8 seconds after the start of the attempt", s.Phase, s.Restarts)
	}
	suspended := lifecycle.State{Phase: lifecycle.Suspended, Bookkeeping: lifecycle.Bookkeeping{StartCompleted: true}}
	if suspended = suspended.Next(timed, newSnapshot(oneReady, observedAt(80))); suspended.StartCompleted {
		t.Error("the start timeout does not apply to a gang that its user resumed")
	}
}

// storeAndRead returns the state as the next manager reads it from a member.
func storeAndRead(t *testing.T, s lifecycle.State) lifecycle.State {
	t.Helper()
	text, err := lifecycle.Status{State: s}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w := gang.Workload{
		Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationStatus: text}}},
	}
	return lifecycle.ReadStatus(w).State
}

// TestStartTimeoutAfterSuccess checks that a rank that succeeds before the last one is ready does not let the start
// timeout expire.
func TestStartTimeoutAfterSuccess(t *testing.T) {
	timed := defaultPolicies
	timed.StartTimeout = 8 * time.Second
	for succeeded, want := range []lifecycle.Phase{lifecycle.Restarting, lifecycle.Pending} {
		s := lifecycle.State{Phase: lifecycle.Pending, Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0)}}
		s = s.Next(timed, newSnapshot(lifecycle.Observation{
			Size: 2, ReadyPods: 1, SucceededPods: int32(succeeded), ActivePods: int32(2 - succeeded), StartTime: podtest.At(0),
		}, observedAt(60)))
		if s.Phase != want {
			t.Errorf("phase %s with %d succeeded ranks, want %s", s.Phase, succeeded, want)
		}
	}
}
