package integration

import (
	"testing"

	"rollcall.training/internal/lifecycle"
)

// testRestartWrites checks that the number of writes of a restart does not depend on the size of
// the gang.
func testRestartWrites(t *testing.T, m *manager) {
	restart := func(ranks int32) float64 {
		ns := m.createNamespace(t)
		r := m.startGang(t, ns, newTrainingWorkload(ranks))
		before := m.countWrites(t)
		r.failContainer(r.getActivePod("worker-0"), 3)
		r.waitForPhase(lifecycle.Running, 1)
		return m.countWritesSince(t, before)
	}
	// The writes suspend the Job, update its status, resume it, set the phase Running, and create
	// the Event of the restart.
	most := 5.0
	if m.Cluster.Release().Minor() < 36 {
		most++ // clearing the start time
	}
	for _, ranks := range []int32{2, 16} {
		if n := restart(ranks); n > most {
			t.Errorf("%d ranks: %v writes, want at most %v", ranks, n, most)
		}
	}
}
