package controller

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
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
		"failed pods of an earlier attempt are counted late": {
			last: running,
			next: newStatus(lifecycle.Running, gang.ReasonGangRunning,
				func(s *lifecycle.Status) { s.FailedPodsBaseline = 1 }),
		},
		"Job of a running gang is resized": {
			last: running,
			next: newStatus(lifecycle.Running, gang.ReasonGangRunning, func(s *lifecycle.Status) { s.JobRanks = 3 }),
		},
		"Job of a running gang is started again": {
			last: running,
			next: newStatus(lifecycle.Running, gang.ReasonGangRunning,
				func(s *lifecycle.Status) { s.ReadyTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }),
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

// TestTimeOfReportedProblem checks that a problem keeps the time of the phase, unless the member missed other phases
// because its writes failed. Its seconds are those until that time.
func TestTimeOfReportedProblem(t *testing.T) {
	start := testStartTime.Add(5 * time.Second)
	for name, c := range map[string]struct{ ran, want time.Duration }{
		"the member has the phase":       {ran: 0, want: 0},
		"the member missed other phases": {ran: 50 * time.Second, want: 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			last := newStatus(lifecycle.Running, gang.ReasonGangRunning)
			last.LastTransitionTime = start
			next := newStatus(lifecycle.Running, gang.ReasonMemberConflict)
			next.LastTransitionTime, next.Seconds.Ran = start.Add(50*time.Second), int64(c.ran/time.Second)
			job, _ := newProbedJob(t)
			w := newTestCluster(t, job)
			m := member{Member: roster.Member{Workload: gang.Workload{Job: job}}}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
				t.Fatal(err)
			}
			if err := last.WriteTo(m.Workload); err != nil {
				t.Fatal(err)
			}
			if _, err := w.writeStatusIfChanged(t.Context(), m, next); err != nil {
				t.Fatal(err)
			}
			if got := lifecycle.ReadStatus(m.Workload).LastTransitionTime.Sub(start); got != c.want {
				t.Errorf("the phase began %s later, want %s", got, c.want)
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
