package lifecycle_test

import (
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestFailedPreflight checks how a gang ends whose preflight checks fail, without a restart.
func TestFailedPreflight(t *testing.T) {
	policies := gang.RestartRules{RestartPolicy: gang.RestartPolicyGang, MaxDisruptions: gang.UnlimitedDisruptions}
	fatal := failedPreflight("a")
	fatal.ExitCode = gang.PreflightFatal
	lost := failure.Failure{Node: "a", Reason: failure.ReasonNodeLost}
	check := failedPreflight("a")
	for name, c := range map[string]struct {
		failures []failure.Failure
		// runs means that all ranks are ready before the last failure.
		runs            bool
		wantPhase       lifecycle.Phase
		wantDisruptions int32
		wantMessage     string
	}{
		"three times": {
			failures: []failure.Failure{check, check, check}, wantPhase: lifecycle.Restarting, wantDisruptions: 3,
			wantMessage: "Disruption 3: ",
		},
		"four times": {
			failures: []failure.Failure{check, check, check, check}, wantPhase: lifecycle.Failed, wantDisruptions: 3,
			wantMessage: "The gang failed after 3 failed preflight checks: ",
		},
		"four times, after the ranks ran": {
			failures: []failure.Failure{check, check, check, check}, runs: true,
			wantPhase: lifecycle.Restarting, wantDisruptions: 4, wantMessage: "Disruption 4: ",
		},
		"after three lost nodes": {
			failures: []failure.Failure{lost, lost, lost, check}, wantPhase: lifecycle.Restarting, wantDisruptions: 4,
			wantMessage: "Disruption 4: ",
		},
		"no node helps": {
			failures: []failure.Failure{fatal}, wantPhase: lifecycle.Failed,
			wantMessage: "The preflight check failed the gang: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(lifecycle.Pending, 0)
			for i, f := range c.failures {
				at, isLast := 100+1000*i, i == len(c.failures)-1
				if isLast && c.runs {
					allReady := lifecycle.Observation{ActivePods: 2, ReadyPods: 2}
					s = s.Next(policies, newSnapshot(allReady, observedAt(at-10)))
				}
				f.Time = podtest.At(at)
				s = s.Next(policies, newSnapshot(lifecycle.Observation{}, func(s *lifecycle.Snapshot) {
					s.FirstFailure = &f
				}, observedAt(at+1)))
				if !isLast {
					suspended := lifecycle.Observation{Suspended: true, SuspendedByRollcall: true}
					s = s.Next(policies, newSnapshot(suspended, withAllPodsTerminated, observedAt(at+700)))
				}
			}
			if s.Phase != c.wantPhase || s.Disruptions != c.wantDisruptions || s.Restarts != 0 {
				t.Errorf("phase %s after %d disruptions and %d restarts", s.Phase, s.Disruptions, s.Restarts)
			}
			if message := s.Describe(policies, nil); !strings.HasPrefix(message, c.wantMessage) {
				t.Errorf("message %q, want %q", message, c.wantMessage)
			}
		})
	}
}

// TestRejectedPods checks that a gang whose pods are always rejected fails in the end.
func TestRejectedPods(t *testing.T) {
	policies := gang.RestartRules{RestartPolicy: gang.RestartPolicyGang, MaxRestarts: 3, MaxDisruptions: -1}
	s := lifecycle.State{Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0)}}
	for attempt := range lifecycle.MaxRefusals + 1 {
		s.Phase = lifecycle.Pending
		s = s.Next(policies, newSnapshot(lifecycle.Observation{Size: 2}, func(s *lifecycle.Snapshot) {
			s.FirstFailure = &failure.Failure{Rank: 1, Reason: "OutOfcpu", Time: podtest.At(attempt)}
		}))
	}
	if s.Phase != lifecycle.Failed || s.Restarts != 0 || s.Disruptions != lifecycle.MaxRefusals {
		t.Errorf("%s after %d restarts and %d disruptions, want Failed after %d disruptions", s.Phase, s.Restarts,
			s.Disruptions, lifecycle.MaxRefusals)
	}
}
