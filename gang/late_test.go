package gang_test

import (
	"testing"
	"time"

	"rollcall.training/gang"
)

// TestLateOnlyOnce: a gang that was whole is not late when a rank of it is not ready any more, as while a StatefulSet
// is scaled up or a readiness probe fails; the next attempt may be late again.
func TestLateOnlyOnce(t *testing.T) {
	timed := gangOf
	timed.StartTimeout = 8 * time.Second
	lacks := gang.Observation{Set: true, Size: 2, Ready: 1, Present: 1}
	s := gang.State{Phase: gang.Running, Begun: second(0)}
	for range 3 {
		if s = s.Next(timed, sight(lacks, lookedAt(60))); s.Phase != gang.Pending || s.Attempt != 0 {
			t.Fatalf("it is %s, attempt %d, because of %v", s.Phase, s.Attempt, s.Cause)
		}
		s = gang.Status{}.With(s).State() // as the next manager finds it
	}
	s = s.Next(timed, sight(lacks, lookedAt(61), fell))
	if s.Phase != gang.Restarting || s.WasWhole {
		t.Fatalf("after a fall it is %s, was whole: %v", s.Phase, s.WasWhole)
	}
	s = s.Next(timed, sight(gang.Observation{Set: true, Size: 0, Suspended: true, Stopped: true}, stopped, lookedAt(62)))
	if s = s.Next(timed, sight(lacks, lookedAt(70))); s.Attempt != 2 || s.Cause.Reason != gang.FallLate {
		t.Errorf("the second attempt has been starting for 8 s, and is %s, attempt %d", s.Phase, s.Attempt)
	}
	held := gang.State{Phase: gang.Suspended, WasWhole: true}
	if held = held.Next(timed, sight(lacks, lookedAt(80))); held.WasWhole {
		t.Error("a gang that its user let go again starts anew")
	}
}
