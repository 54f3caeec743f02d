package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// vote is a failure that a gang reports to the ledger.
type vote struct {
	namespace, uid, node string
	at                   int // seconds after the start of the test
	isHardware           bool
}

func recordVotes(ledger *lifecycle.NodeLedger, votes ...vote) {
	for _, v := range votes {
		failures := []lifecycle.NodeFailure{{Node: v.node, Time: podtest.At(v.at), IsHardware: v.isHardware}}
		ledger.Record(v.namespace, v.uid, failures, podtest.At(v.at))
	}
}

// TestSuspects checks which nodes are suspects.
func TestSuspects(t *testing.T) {
	const day = 24 * 3600
	for name, c := range map[string]struct {
		votes []vote
		// at is the present in seconds after the start of the test.
		at   int
		want []string
	}{
		"gangs of two namespaces": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 10, false}}, at: 10, want: []string{"n"},
		},
		"two gangs of one namespace": {
			votes: []vote{{"a", "1", "n", 0, false}, {"a", "2", "n", 10, false}}, at: 10,
		},
		"two nodes": {votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "m", 10, false}}, at: 10},
		"after a day": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 10, false}}, at: day,
		},
		"again after a day": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 10, false}, {"a", "1", "n", day, false}},
			at:    day, want: []string{"n"},
		},
		"a gang that fails on another node, too": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 10, false}, {"b", "2", "m", 20, false}}, at: 20,
		},
		"another gang fails on another node": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 10, false}, {"b", "3", "m", 20, false}},
			at:    20, want: []string{"n"},
		},
		"the hardware failed before the program": {
			votes: []vote{
				{"a", "1", "n", 0, true}, {"b", "2", "n", 10, false}, {"a", "1", "n", 20, false}, {"a", "1", "m", 30, false},
			},
			at: 30, want: []string{"n"},
		},
		"the program failed before the hardware": {
			votes: []vote{
				{"a", "1", "n", 0, false}, {"b", "2", "n", 10, false}, {"a", "1", "n", 20, true}, {"a", "1", "m", 30, false},
			},
			at: 30, want: []string{"n"},
		},
		"the clock of the node is ahead": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 50, false}}, at: 10, want: []string{"n"},
		},
		"a time in the future": {
			votes: []vote{{"a", "1", "n", 0, false}, {"b", "2", "n", 100, false}}, at: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ledger lifecycle.NodeLedger
			recordVotes(&ledger, c.votes...)
			if got := ledger.Suspects(podtest.At(c.at)); !slices.Equal(got, c.want) {
				t.Errorf("suspects %v, want %v", got, c.want)
			}
		})
	}
}

// TestRecordNodeFailure checks that a pass which repeats what the ledger contains changes nothing.
func TestRecordNodeFailure(t *testing.T) {
	var ledger lifecycle.NodeLedger
	now := podtest.At(100)
	failures := []lifecycle.NodeFailure{{Node: "n", Time: podtest.At(50)}}
	if !ledger.Record("a", "1", failures, now) || ledger.Record("a", "1", failures, now) {
		t.Error("only the first report of a failure changes the ledger")
	}
	for name, at := range map[string]time.Time{
		"a failure of yesterday":  now.Add(-lifecycle.AvoidancePeriod),
		"a failure in the future": now.Add(time.Hour),
	} {
		if ledger.Record("b", "2", []lifecycle.NodeFailure{{Node: "n", Time: at}}, now) {
			t.Errorf("%s changed the ledger", name)
		}
	}
}

// TestNodeFailures checks which failures in the status of a gang its nodes may have caused.
func TestNodeFailures(t *testing.T) {
	at := podtest.At(10)
	exit := &failure.Failure{Node: "a", Container: "trainer", Reason: "Error", ExitCode: 139, Time: at}
	lost := &failure.Failure{Node: "a", Reason: failure.ReasonNodeLost, Time: at}
	fatal := failedPreflight("a")
	fatal.ExitCode = gang.PreflightFatal
	earlier := lifecycle.NodeFailure{Node: "b", Time: podtest.At(5), IsHardware: true}
	failedNodes := []lifecycle.FailedNode{
		{Name: earlier.Node, Reason: failure.ReasonNodeLost, LastFailureTime: earlier.Time}, {Name: "c", Failures: 2},
	}
	for name, c := range map[string]struct {
		state lifecycle.State
		want  []lifecycle.NodeFailure
	}{
		"no failure":  {},
		"an exit":     {lifecycle.State{FirstFailure: exit}, []lifecycle.NodeFailure{{"a", at, false}}},
		"a lost node": {lifecycle.State{FirstFailure: lost}, []lifecycle.NodeFailure{{"a", at, true}}},
		"an earlier fault of the hardware": {
			lifecycle.State{FirstFailure: exit, FailedNodes: failedNodes},
			[]lifecycle.NodeFailure{earlier, {"a", at, false}},
		},
		"a drain": {state: lifecycle.State{FirstFailure: &failure.Failure{
			Node: "a", Reason: "EvictionByEvictionAPI", Disrupted: true, Time: at,
		}}},
		"a check that fails on any node": {state: lifecycle.State{FirstFailure: &fatal}},
		"a name that no template permits": {
			state: lifecycle.State{FirstFailure: &failure.Failure{Node: "a b", Reason: failure.ReasonNodeLost, Time: at}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.state.NodeFailures()); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAttackNodeLedger checks that users of one namespace make no node a suspect, however many gangs report whatever,
// that they do not displace the votes of others, and that the memory and the suspects are bounded.
func TestAttackNodeLedger(t *testing.T) {
	var ledger lifecycle.NodeLedger
	recordVotes(&ledger, vote{"a", "1", "bad", 0, false}, vote{"b", "2", "bad", 1, false}, vote{"c", "3", "bad", 2, false})
	for i := range 1000 {
		uid := fmt.Sprintf("forged-%d", i) // a gang that is deleted afterward
		for _, namespace := range []string{"evil", "evil", "accomplice"} {
			recordVotes(&ledger, vote{namespace, uid, fmt.Sprintf("node-%d", i), 10 + i, true})
		}
		recordVotes(&ledger, vote{"evil", uid, "victim", 10 + i, true})
	}
	now := podtest.At(2000)
	got := ledger.Suspects(now)
	if len(got) != 8 || !slices.Contains(got, "bad") || slices.Contains(got, "victim") {
		t.Errorf("suspects %v", got)
	}
	if len(ledger["evil"]) != 8 {
		t.Errorf("a namespace has %d votes", len(ledger["evil"]))
	}
	for i := range 2000 {
		recordVotes(&ledger, vote{fmt.Sprintf("namespace-%d", i), "1", fmt.Sprintf("node-%d", i), 2000, true})
	}
	if len(ledger) != 512 {
		t.Errorf("%d namespaces", len(ledger))
	}
}
