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

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// testJobWrites checks that a gang of one Job needs three writes, whatever its size: the Service, Running
// and Succeeded.
func testJobWrites(t *testing.T, m *manager) {
	for _, ranks := range []int32{2, 16} {
		before := m.countWrites(t)
		ns := m.createNamespace(t)
		m.createJob(t, ns, newJob("train", ranks))
		pods := m.waitForPods(t, ns, "train", int(ranks))
		m.setPodPhases(t, pods, corev1.PodRunning)
		m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
		m.setPodPhases(t, pods, corev1.PodSucceeded)
		m.waitForJobPhase(t, ns, lifecycle.Succeeded, "GangSucceeded")
		if n := m.countWritesSince(t, before); n > 3 {
			t.Errorf("%d ranks: %v writes, want at most 3", ranks, n)
		}
	}
}

// testMembersWrites checks that the number of writes has the same bound for any number of ranks. A slow cluster can
// skip the phase Running of a member.
func testMembersWrites(t *testing.T, m *manager) {
	life := func(workers int32) float64 {
		before := m.countWrites(t)
		ns := m.createNamespace(t)
		m.succeedLauncher(t, m.startLauncherGang(t, ns, workers), fmt.Sprintf("reached=%d\n", workers))
		m.waitForMemberStatus(t, ns, lifecycle.Succeeded, gang.ReasonGangSucceeded)
		return m.countWritesSince(t, before)
	}
	few, many := life(2), life(16)
	// The writes are the Service, the Secret, a second owner, and Running and Succeeded on both
	// members. Reading the launcher's pod is not a write.
	if most := 3.0 + 4; max(few, many) > most {
		t.Errorf("%v writes for 16 workers, %v for 2, want at most %v", many, few, most)
	}
}

// countWrites returns the manager's writes by method and code. It first waits for a second without
// writes, because Events are sent asynchronously and counted when answered.
func (m *manager) countWrites(t *testing.T) map[string]float64 {
	t.Helper()
	now := m.readWriteRequests(t)
	wait.For(t, "the writes to stop", func(context.Context) error {
		before := now
		time.Sleep(time.Second)
		if now = m.readWriteRequests(t); !maps.Equal(before, now) {
			return errors.New("they continue")
		}
		return nil
	})
	return now
}

func (m *manager) readWriteRequests(t *testing.T) map[string]float64 {
	t.Helper()
	var text bytes.Buffer
	if err := m.Controller.WriteMetrics(t.Context(), &text); err != nil {
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

// countWritesSince returns the number of writes since before. It excludes writes that were rejected
// because the cache was stale, because the number of retries depends on timing.
func (m *manager) countWritesSince(t *testing.T, before map[string]float64) (sum float64) {
	t.Helper()
	for k, n := range m.countWrites(t) {
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
