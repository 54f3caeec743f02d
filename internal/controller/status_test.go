package controller

import (
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

func newStatus(phase lifecycle.Phase, reason gang.Reason, changes ...func(*lifecycle.Status)) lifecycle.Status {
	s := lifecycle.Status{Reason: reason, Message: "message", State: lifecycle.State{Phase: phase}}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func withRestarts(n int32) func(*lifecycle.Status) {
	return func(s *lifecycle.Status) { s.Restarts = n }
}

func withMessage(text string) func(*lifecycle.Status) {
	return func(s *lifecycle.Status) { s.Message = text }
}

func withSuspendedByRollcall(s *lifecycle.Status) { s.SuspendedByRollcall = true }

func withFirstFailureOfRank(rank int32) func(*lifecycle.Status) {
	return func(s *lifecycle.Status) { s.FirstFailure = &failure.Failure{Rank: rank} }
}

// TestIsSameStatus checks which changes of a status are written to a member.
func TestIsSameStatus(t *testing.T) {
	running := newStatus(lifecycle.Running, gang.ReasonGangRunning)
	conflict := newStatus(lifecycle.Pending, gang.ReasonMemberConflict)
	for name, c := range map[string]struct {
		last, next lifecycle.Status
		want       bool
	}{
		"nothing changed": {last: running, next: running, want: true},
		"no status after admission": {
			last: lifecycle.Status{},
			next: newStatus(lifecycle.Pending, gang.ReasonGangPending),
			want: true,
		},
		"message of another release": {
			last: running,
			next: newStatus(lifecycle.Running, gang.ReasonGangRunning, withMessage("other")),
			want: true,
		},
		"conflict has another message": {
			last: conflict,
			next: newStatus(lifecycle.Pending, gang.ReasonMemberConflict, withMessage("other")),
		},
		"conflict is reported": {last: newStatus(lifecycle.Pending, gang.ReasonGangPending), next: conflict},
		"conflict is resolved": {last: conflict, next: newStatus(lifecycle.Pending, gang.ReasonGangPending)},
		"gang restarted": {
			last: running,
			next: newStatus(lifecycle.Running, gang.ReasonGangRunning, withRestarts(1)),
		},
		"member is resumed": {
			last: newStatus(lifecycle.Running, gang.ReasonGangRunning, withSuspendedByRollcall),
			next: running,
		},
		"earlier failure is reported": {
			last: newStatus(lifecycle.Failed, gang.ReasonGangFailed, withFirstFailureOfRank(1)),
			next: newStatus(lifecycle.Failed, gang.ReasonGangFailed, withFirstFailureOfRank(0)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isSameStatus(c.last, c.next); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestNeedsEvent checks which changes of a status are reported as an Event.
func TestNeedsEvent(t *testing.T) {
	running := newStatus(lifecycle.Running, gang.ReasonGangRunning)
	restarting := newStatus(lifecycle.Restarting, gang.ReasonGangRestarting)
	stuck := newStatus(lifecycle.Restarting, gang.ReasonPodStuckTerminating)
	pending := newStatus(lifecycle.Pending, gang.ReasonGangPending)
	for name, c := range map[string]struct {
		last, next lifecycle.Status
		want       bool
	}{
		"conditions show the phase": {last: pending, next: running},
		"gang fails": {
			last: running, next: newStatus(lifecycle.Failed, gang.ReasonGangFailed), want: true,
		},
		"gang restarts":   {last: running, next: restarting, want: true},
		"restart ends":    {last: restarting, next: pending},
		"nothing changes": {last: running, next: running},
		"only the message changes": {
			last: pending,
			next: newStatus(lifecycle.Pending, gang.ReasonGangPending, withMessage("other")),
		},
		"second restart in the same phase": {
			last: restarting,
			next: newStatus(lifecycle.Restarting, gang.ReasonGangRestarting, withRestarts(1)),
			want: true,
		},
		"problem is reported": {
			last: pending,
			next: newStatus(lifecycle.Pending, gang.ReasonMembersMissing),
			want: true,
		},
		"problem is resolved": {
			last: newStatus(lifecycle.Pending, gang.ReasonMembersMissing),
			next: pending,
			want: true,
		},
		"pod is stuck during a restart": {last: restarting, next: stuck, want: true},
		"stuck pod is deleted":          {last: stuck, next: restarting},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsEvent(c.last, c.next); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
