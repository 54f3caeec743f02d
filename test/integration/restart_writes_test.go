package integration

import (
	"strings"
	"testing"
	"time"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// testRestartWrites: a restart costs as many writes whatever the size.
func testRestartWrites(t *testing.T, m *manager) {
	restart := func(ranks int32) (written, refused float64) {
		ns := m.namespace(t)
		r := m.trains(t, ns, training(ranks))
		time.Sleep(2 * time.Second) // Events are sent behind the writes
		before := m.requests(t)
		r.falls(r.pod("worker-0"), 3)
		r.reaches(gang.Running, 1)
		time.Sleep(2 * time.Second)
		for k, v := range m.requests(t) {
			if v -= before[k]; v <= 0 {
				continue
			}
			t.Logf("%d ranks: %v of %s", ranks, v, k)
			if strings.Contains(k, `code="409"`) {
				refused += v
			} else {
				written += v
			}
		}
		return written, refused
	}
	// Suspended, told so, let go, Running, and the Events of three phases; where it takes long, Starting and its Event.
	most := 9.0
	if m.Cluster.Release() == cluster.Floor {
		most++ // the start time that is taken back
	}
	// The Job controller writes to the same status, and the cache is behind it now and then.
	const mostRefused = 3
	for _, ranks := range []int32{2, 16} {
		if written, refused := restart(ranks); written > most || refused > mostRefused {
			t.Errorf("%d ranks: %v writes and %v that were refused, want at most %v and %v", ranks, written, refused, most, mostRefused)
		}
	}
}
