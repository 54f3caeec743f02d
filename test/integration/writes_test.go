package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall.training/gang"
)

// testMembersWrites: a gang of many ranks costs as many writes as one of few.
func testMembersWrites(t *testing.T, m *manager) {
	life := func(workers int32) map[string]float64 {
		before := m.requests(t)
		ns := m.namespace(t)
		m.endLauncher(t, m.run(t, ns, workers), fmt.Sprintf("reached=%d\n", workers))
		m.told(t, ns, gang.Succeeded, gang.ReasonGangSucceeded)
		time.Sleep(2 * time.Second) // Events are sent behind the writes
		out := m.requests(t)
		for k := range out {
			if out[k] -= before[k]; out[k] == 0 {
				delete(out, k)
			}
		}
		t.Logf("%d workers: %v", workers, out)
		return out
	}
	few, many := life(2), life(16)
	sum := func(counts map[string]float64) (n float64) {
		for _, v := range counts {
			n += v
		}
		return n
	}
	// Service, Secret, a second owner, Running and Succeeded on both, an Event for each but the owner, and the look at
	// the launcher's pod is no write. A write that was refused is made again.
	const most = 3 + 4 + 6 + 3
	if n := sum(many); n > most || n > sum(few)+3 {
		t.Errorf("%v writes for 16 workers, %v for 2", many, few)
	}
}

// requests counts the manager's writes by method and code.
func (m *manager) requests(t *testing.T) map[string]float64 {
	t.Helper()
	var text bytes.Buffer
	if err := m.Metrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for scanner := bufio.NewScanner(&text); scanner.Scan(); {
		rest, ok := strings.CutPrefix(scanner.Text(), "rest_client_requests_total{")
		if !ok || strings.Contains(rest, `method="GET"`) {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		var n float64
		if _, err := fmt.Sscan(value, &n); err != nil {
			t.Fatal(err)
		}
		out[labels] = n
	}
	return out
}
