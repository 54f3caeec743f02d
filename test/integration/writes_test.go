package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"rollcall.training/gang"
)

// testMembersWrites: a gang of many ranks costs as many writes as one of few.
func testMembersWrites(t *testing.T, m *manager) {
	life := func(workers int32) float64 {
		before := m.writes(t)
		ns := m.namespace(t)
		m.endLauncher(t, m.run(t, ns, workers), fmt.Sprintf("reached=%d\n", workers))
		m.told(t, ns, gang.Succeeded, gang.ReasonGangSucceeded)
		m.events(t, ns, gang.ReasonGangSucceeded, 2)
		return m.writesSince(t, before)
	}
	few, many := life(2), life(16)
	// Service, Secret, a second owner, Running and Succeeded on both, an Event for each but the owner, and where it takes
	// long, Starting and its Event on both. The look at the launcher's pod is no write.
	const slow = 4
	if most := 3.0 + 4 + 6 + slow; many > most || many > few+slow {
		t.Errorf("%v writes for 16 workers, %v for 2, want at most %v", many, few, most)
	}
}

// writes counts the manager's writes by method and code, when it made none for a second: Events are sent by themselves, and
// counted when they were answered.
func (m *manager) writes(t *testing.T) map[string]float64 {
	t.Helper()
	now := m.requests(t)
	eventually(t, "the end of the writes", func(context.Context) error {
		before := now
		time.Sleep(time.Second)
		if now = m.requests(t); !maps.Equal(before, now) {
			return errors.New("they go on")
		}
		return nil
	})
	return now
}

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

// writesSince adds up the writes since an earlier look, but for those that were refused because the cache was behind:
// how many it takes to get one through is a matter of luck.
func (m *manager) writesSince(t *testing.T, before map[string]float64) (sum float64) {
	t.Helper()
	for k, n := range m.writes(t) {
		if n -= before[k]; n == 0 {
			continue
		}
		t.Logf("%v of %s", n, k)
		if !strings.Contains(k, `code="409"`) {
			sum += n
		}
	}
	return sum
}
