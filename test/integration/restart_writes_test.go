package integration

import (
	"testing"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// testRestartWrites: a restart costs as many writes whatever the size.
func testRestartWrites(t *testing.T, m *manager) {
	restart := func(ranks int32) float64 {
		ns := m.namespace(t)
		r := m.trains(t, ns, training(ranks))
		m.events(t, ns, gang.ReasonGangRunning, 1)
		before := m.writes(t)
		r.falls(r.pod("worker-0"), 3)
		r.reaches(gang.Running, 1)
		m.events(t, ns, gang.ReasonGangRunning, 2)
		return m.writesSince(t, before)
	}
	// Suspended, told so, let go, Running, and the Events of three phases; where it takes long, Starting and its Event.
	most := 9.0
	if m.Cluster.Release() == cluster.Floor {
		most++ // the start time that is taken back
	}
	for _, ranks := range []int32{2, 16} {
		if n := restart(ranks); n > most {
			t.Errorf("%d ranks: %v writes, want at most %v", ranks, n, most)
		}
	}
}
