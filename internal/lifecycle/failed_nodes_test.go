package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

var avoidingPolicies = gang.RestartRules{
	RestartPolicy: gang.RestartPolicyGang, MaxRestarts: 9, MaxDisruptions: gang.UnlimitedDisruptions, AvoidNodes: true,
}

// restart returns the state after the restart for a failure at a time.
func restart(s lifecycle.State, policies gang.RestartRules, f failure.Failure, at int) lifecycle.State {
	f.Time = podtest.At(at)
	s.Phase = lifecycle.Running
	withFailure := func(s *lifecycle.Snapshot) { s.FirstFailure = &f }
	s = s.Next(policies, newSnapshot(lifecycle.Observation{}, withFailure, observedAt(at+1)))
	s.NextRestartTime = time.Time{}
	suspended := lifecycle.Observation{Suspended: true, SuspendedByRollcall: true}
	return s.Next(policies, newSnapshot(suspended, withAllPodsTerminated, observedAt(at+2)))
}

// failedPreflight returns the failure of a preflight check on a node.
func failedPreflight(node string) failure.Failure {
	return failure.Failure{
		Rank: 1, Node: node, Container: "check", Auxiliary: true, ExitCode: gang.PreflightNodeFailed,
		Reason: failure.ReasonPreflightFailed,
	}
}

// TestAvoidedNodes checks which nodes a gang avoids after failures.
func TestAvoidedNodes(t *testing.T) {
	exit := func(node string) failure.Failure {
		return failure.Failure{Rank: 1, Node: node, Container: "trainer", Reason: "Error", ExitCode: 139}
	}
	lost := func(node string) failure.Failure {
		return failure.Failure{Rank: 1, Node: node, Reason: failure.ReasonNodeLost}
	}
	change := func(f failure.Failure, change func(*failure.Failure)) failure.Failure {
		change(&f)
		return f
	}
	twice := func(f failure.Failure) []failure.Failure { return []failure.Failure{f, f} }
	off := avoidingPolicies
	off.AvoidNodes = false
	const day = 24 * 3600
	for name, c := range map[string]struct {
		policies *gang.RestartRules
		failures []failure.Failure
		// pause is the number of seconds between two failures; 0 for 100.
		pause int
		want  []string
	}{
		"a lost node":              {failures: []failure.Failure{lost("a")}, want: []string{"a"}},
		"a lost node without auto": {policies: &off, failures: []failure.Failure{lost("a")}},
		"an unhealthy device": {
			failures: []failure.Failure{{Node: "a", Reason: failure.ReasonDeviceUnhealthy}}, want: []string{"a"},
		},
		"a pod that a node rejects": {
			failures: []failure.Failure{{Node: "a", Reason: "UnexpectedAdmissionError"}}, want: []string{"a"},
		},
		"one exit by a signal":    {failures: []failure.Failure{exit("a")}},
		"two exits on a node":     {failures: []failure.Failure{exit("a"), exit("b"), exit("a")}, want: []string{"a"}},
		"two exits in two days":   {failures: []failure.Failure{exit("a"), exit("a")}, pause: day},
		"a lost node after a day": {failures: []failure.Failure{lost("a"), exit("b")}, pause: day},
		"two drains": {
			failures: twice(failure.Failure{Node: "a", Reason: "EvictionByEvictionAPI", Disrupted: true}),
		},
		"two deletions": {failures: twice(failure.Failure{Node: "a", Reason: failure.ReasonPodDeleted})},
		"two containers without memory": {
			failures: twice(change(exit("a"), func(f *failure.Failure) { f.Reason = "OOMKilled" })),
		},
		"two ranks that lost a peer": {
			failures: twice(change(exit("a"), func(f *failure.Failure) { f.LostPeer = true })),
		},
		"two containers that their node lost": {
			failures: twice(change(exit("a"), func(f *failure.Failure) { f.Reason, f.ExitCode = "Unknown", 255 })),
		},
		"two ranks that may have been terminated": {
			failures: twice(change(exit("a"), func(f *failure.Failure) { f.MaybeTerminated = true })),
		},
		"a name that is not valid in a template": {failures: []failure.Failure{lost(strings.Repeat("a", 64))}},
		"a failed preflight check without auto": {
			policies: &off, failures: []failure.Failure{failedPreflight("a"), lost("b")}, want: []string{"a"},
		},
		"at most four nodes, the oldest goes": {
			failures: []failure.Failure{lost("a"), lost("b"), lost("c"), lost("d"), lost("a"), lost("e")},
			want:     []string{"c", "d", "a", "e"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policies, pause := avoidingPolicies, 100
			if c.policies != nil {
				policies = *c.policies
			}
			if c.pause > 0 {
				pause = c.pause
			}
			s := newState(lifecycle.Running, 0)
			for i, f := range c.failures {
				if s = restart(s, policies, f, 100+i*pause); s.Phase != lifecycle.Pending {
					t.Fatalf("phase %s after failure %d", s.Phase, i)
				}
			}
			if diff := cmp.Diff(c.want, s.AvoidedNodes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReleaseNode checks when a gang stops avoiding a node.
func TestReleaseNode(t *testing.T) {
	lost := failure.Failure{Rank: 1, Node: "a", Reason: failure.ReasonNodeLost}
	avoiding := restart(newState(lifecycle.Running, 0), avoidingPolicies, lost, 100)
	running := avoiding
	running.Phase = lifecycle.Running
	withMember := func(change func(*lifecycle.Observation)) func(*lifecycle.Snapshot) {
		return func(s *lifecycle.Snapshot) {
			s.Placement = lifecycle.Placement{Unbound: 1, UnboundSince: podtest.At(110)}
			change(&s.Members[0].Observed)
		}
	}
	unbound := func(since int) func(*lifecycle.Snapshot) {
		return func(s *lifecycle.Snapshot) {
			s.Placement = lifecycle.Placement{Unbound: 1, UnboundSince: podtest.At(since)}
		}
	}
	for name, c := range map[string]struct {
		state       lifecycle.State
		change      func(*lifecycle.Snapshot)
		now         int
		wantRelease bool
	}{
		"a rank waits for five minutes":   {state: avoiding, change: unbound(110), now: 110 + 300, wantRelease: true},
		"a rank waits for a shorter time": {state: avoiding, change: unbound(110), now: 110 + 299},
		"a rank of an elastic gang waits": {state: running, change: unbound(110), now: 1000},
		"no rank waits for a node":        {state: avoiding, change: func(*lifecycle.Snapshot) {}, now: 1000},
		"the gang avoids no node":         {state: newState(lifecycle.Pending, 1), change: unbound(110), now: 1000},
		"somebody suspends a member": {
			state: avoiding, change: withMember(func(o *lifecycle.Observation) { o.Suspended = true }), now: 1000,
		},
		"a Job of the gang is complete": {
			state: avoiding, change: withMember(func(o *lifecycle.Observation) { o.Complete = true }), now: 1000,
		},
		"a Job is about to complete the gang": {
			state: avoiding, change: withMember(func(o *lifecycle.Observation) { o.Finishing = true }), now: 1000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.state.Next(avoidingPolicies, newSnapshot(lifecycle.Observation{}, c.change, observedAt(c.now)))
			isReleased := s.Phase == lifecycle.Restarting && len(s.AvoidedNodes()) == 0
			if isReleased != c.wantRelease {
				t.Fatalf("phase %s, avoids %v", s.Phase, s.AvoidedNodes())
			}
			if !isReleased {
				return
			}
			if message := s.Describe(avoidingPolicies, nil); !strings.Contains(message, "stops avoiding node a") {
				t.Errorf("message %q", message)
			}
			if s.Restarts != 0 || s.Disruptions != 1 {
				t.Errorf("%d restarts, %d disruptions", s.Restarts, s.Disruptions)
			}
			if s = restart(s, avoidingPolicies, lost, 2000); len(s.AvoidedNodes()) > 0 {
				t.Errorf("avoids %v again", s.AvoidedNodes())
			}
		})
	}
}

// TestAttackForgedNodes checks that the nodes in a status are bounded, and that each can be part of a template, whoever
// wrote the status.
func TestAttackForgedNodes(t *testing.T) {
	forged := lifecycle.Status{Version: lifecycle.StatusVersion, State: lifecycle.State{Phase: lifecycle.Running}}
	for i := range 100 {
		name := fmt.Sprintf("node-%d", i)
		forged.FailedNodes = append(forged.FailedNodes, lifecycle.FailedNode{Name: name, Avoided: true},
			lifecycle.FailedNode{Name: strings.Repeat("x", 64), Avoided: true}, lifecycle.FailedNode{Name: "a b", Avoided: true})
		forged.ExcludedNodes = append(forged.ExcludedNodes, name)
	}
	text, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationStatus: string(text)}}}
	got := lifecycle.ReadStatus(gang.Workload{Job: job})
	if want := []string{"node-96", "node-97", "node-98", "node-99"}; !slices.Equal(got.AvoidedNodes(), want) {
		t.Errorf("avoids %v, want %v", got.AvoidedNodes(), want)
	}
	if len(got.FailedNodes) != 8 || len(got.ExcludedNodes) != 4 {
		t.Errorf("%d failed nodes, %d excluded nodes", len(got.FailedNodes), len(got.ExcludedNodes))
	}
}
