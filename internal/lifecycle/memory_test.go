package lifecycle

import (
	"testing"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestUndoneDisruption checks that a disruption is kept until its restart is written, and not longer.
func TestUndoneDisruption(t *testing.T) {
	disruption := &failure.Failure{Rank: 0, Pod: "train-0", Reason: failure.ReasonPodDeleted, Time: podtest.At(5)}
	running := State{
		Phase: Running, Bookkeeping: Bookkeeping{Attempt: 1, AttemptStartTime: podtest.At(0)},
	}
	restarting, suspended, nextRun := running, running, running
	restarting.Phase, restarting.Attempt, restarting.FirstFailure = Restarting, 2, disruption
	repeated := restarting
	restarting.Disruptions = 1
	suspended.Attempt, nextRun.AttemptStartTime = 2, podtest.At(60)
	exited := restarting
	exited.FirstFailure = &failure.Failure{Rank: 0, Pod: "train-0", Reason: "Error", Time: podtest.At(5)}
	for name, c := range map[string]struct {
		decided, state State
		want           *failure.Failure
	}{
		"the write was rejected":                                 {decided: restarting, state: running, want: disruption},
		"the restart was written":                                {decided: restarting, state: restarting},
		"the attempt was suspended":                              {decided: restarting, state: suspended},
		"the gang runs again":                                    {decided: restarting, state: nextRun},
		"the rank failed, which its pod still shows":             {decided: exited, state: running},
		"the start was to be repeated for an earlier disruption": {decided: repeated, state: running},
		"nothing was decided":                                    {decided: running, state: running},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			m.RecordDecision(running, c.decided)
			if got := m.decision.undoneDisruption(c.state); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
