package lifecycle_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

var gangStartTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// afterGangStart returns the time a number of seconds after the start of the gang.
func afterGangStart(seconds int) time.Time {
	return gangStartTime.Add(time.Duration(seconds) * time.Second)
}

// newMemberState returns a member that exists.
func newMemberState(role string, seen lifecycle.Observation) lifecycle.MemberState {
	return lifecycle.MemberState{
		Member: gang.Member{Role: role, WorkloadName: "train-" + role, Size: seen.Size},
		Exists: true, MinReady: seen.Size, DeterminesCompletion: role == "launcher", Observed: seen,
	}
}

func newMissingMember(role string, size int32) lifecycle.MemberState {
	e := newMemberState(role, lifecycle.Observation{Size: size})
	e.Exists, e.Observed = false, lifecycle.Observation{}
	return e
}

func TestNextPhaseOfMembers(t *testing.T) {
	ready := func(n int32) lifecycle.Observation {
		return lifecycle.Observation{Size: n, ReadyPods: n, ActivePods: n}
	}
	complete := func(n int32, seconds int) lifecycle.Observation {
		return lifecycle.Observation{Size: n, SucceededPods: n, Complete: true, FinishTime: afterGangStart(seconds)}
	}
	failed := func(n int32, seconds int) lifecycle.Observation {
		return lifecycle.Observation{
			Size:       n,
			Failed:     true,
			Message:    "BackoffLimitExceeded: 1",
			FinishTime: afterGangStart(seconds),
		}
	}
	elastic := newMemberState("worker", lifecycle.Observation{Size: 4, ReadyPods: 2, ActivePods: 2})
	elastic.MinReady = 2
	for name, c := range map[string]struct {
		previous lifecycle.Phase
		members  lifecycle.Members
		want     lifecycle.Phase
		message  string
	}{
		"all ranks are ready": {
			previous: lifecycle.Pending,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMemberState("worker", ready(4))},
			want:     lifecycle.Running,
			message:  "All 5 ranks have been ready",
		},
		"one member is not ready": {
			previous: lifecycle.Pending,
			members: lifecycle.Members{
				newMemberState("launcher", ready(1)),
				newMemberState("worker", lifecycle.Observation{Size: 4, ReadyPods: 3, ActivePods: 4}),
			},
			want:    lifecycle.Pending,
			message: "Waiting for all 5 ranks to be ready",
		},
		"one member completes before the other": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("master", complete(1, 5)), newMemberState("worker", ready(4))},
			want:     lifecycle.Running,
			message:  "All 5 ranks have been ready",
		},
		"a member is resumed after the other one has completed": {
			previous: lifecycle.Pending,
			members:  lifecycle.Members{newMemberState("master", complete(1, 5)), newMemberState("worker", ready(4))},
			want:     lifecycle.Pending,
			message: "Waiting for all 5 ranks to be ready. train-master is complete, and its ranks do not run again. " +
				"If the other ranks wait for them, delete and recreate all workloads of the gang",
		},
		"a rank has to be replaced": {
			previous: lifecycle.Running,
			members: lifecycle.Members{
				newMemberState("launcher", ready(1)),
				newMemberState("worker", lifecycle.Observation{Size: 4, ReadyPods: 3, ActivePods: 3}),
			},
			want:    lifecycle.Pending,
			message: "Waiting for all 5 ranks to be ready",
		},
		"one member is missing": {
			previous: lifecycle.Pending,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMissingMember("worker", 4)},
			want:     lifecycle.Pending,
			message:  "Waiting for train-worker (role worker, 4 pods)",
		},
		"two members are missing": {
			previous: lifecycle.Pending,
			members:  lifecycle.Members{newMissingMember("launcher", 1), newMissingMember("worker", 4)},
			want:     lifecycle.Pending,
			message:  "Waiting for train-launcher (role launcher, 1 pod) and train-worker (role worker, 4 pods)",
		},
		"member was deleted": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMissingMember("worker", 4)},
			want:     lifecycle.Pending,
			message:  "Waiting for train-worker (role worker, 4 pods)",
		},
		"one member is suspended": {
			previous: lifecycle.Running,
			members: lifecycle.Members{
				newMemberState("launcher", ready(1)),
				newMemberState("worker", lifecycle.Observation{Suspended: true}),
			},
			want:    lifecycle.Pending,
			message: "The gang is suspended",
		},
		"launcher completes the gang": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", complete(1, 9)), newMemberState("worker", ready(4))},
			want:     lifecycle.Succeeded,
			message:  "The gang succeeded",
		},
		"workers do not complete a gang with a launcher": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMemberState("worker", complete(4, 9))},
			want:     lifecycle.Running,
			message:  "All 5 ranks have been ready",
		},
		"one of two equal members is complete": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("worker", complete(4, 9)), newMemberState("ps", ready(1))},
			want:     lifecycle.Running,
			message:  "All 5 ranks have been ready",
		},
		"all of two equal members are complete": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("worker", complete(4, 9)), newMemberState("ps", complete(1, 3))},
			want:     lifecycle.Succeeded,
			message:  "The gang succeeded",
		},
		"worker failed": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMemberState("worker", failed(4, 9))},
			want:     lifecycle.Failed,
			message:  "The gang failed: train-worker: BackoffLimitExceeded: 1",
		},
		"worker failed while the launcher is missing": {
			previous: lifecycle.Pending,
			members:  lifecycle.Members{newMissingMember("launcher", 1), newMemberState("worker", failed(4, 9))},
			want:     lifecycle.Failed,
			message:  "The gang failed: train-worker: BackoffLimitExceeded: 1",
		},
		"worker failed after the launcher completed": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", complete(1, 9)), newMemberState("worker", failed(4, 10))},
			want:     lifecycle.Succeeded,
			message:  "The gang succeeded",
		},
		"worker failed before the launcher completed": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", complete(1, 10)), newMemberState("worker", failed(4, 9))},
			want:     lifecycle.Failed,
			message:  "The gang failed: train-worker: BackoffLimitExceeded: 1",
		},
		"worker failed in the second in which the launcher completed": {
			previous: lifecycle.Running,
			members:  lifecycle.Members{newMemberState("launcher", complete(1, 9)), newMemberState("worker", failed(4, 9))},
			want:     lifecycle.Succeeded,
			message:  "The gang succeeded",
		},
		"launcher completed after the gang failed": {
			previous: lifecycle.Failed,
			members:  lifecycle.Members{newMemberState("launcher", complete(1, 9)), newMemberState("worker", failed(4, 9))},
			want:     lifecycle.Failed,
			message:  "The gang failed: train-worker: BackoffLimitExceeded: 1",
		},
		"launcher was deleted after the gang succeeded": {
			previous: lifecycle.Succeeded,
			members:  lifecycle.Members{newMissingMember("launcher", 1), newMemberState("worker", ready(4))},
			want:     lifecycle.Succeeded,
			message:  "The gang succeeded",
		},
		"launcher was recreated after the gang succeeded": {
			previous: lifecycle.Succeeded,
			members: lifecycle.Members{
				newMemberState("launcher", lifecycle.Observation{Size: 1}),
				newMemberState("worker", ready(4)),
			},
			want:    lifecycle.Pending,
			message: "Waiting for all 5 ranks to be ready",
		},
		"failed worker was deleted": {
			previous: lifecycle.Failed,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMissingMember("worker", 4)},
			want:     lifecycle.Failed,
			message:  "The gang failed",
		},
		"phase Succeeded set by hand while the launcher runs": {
			previous: lifecycle.Succeeded,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), newMissingMember("worker", 4)},
			want:     lifecycle.Pending,
			message:  "Waiting for train-worker (role worker, 4 pods)",
		},
		"elastic gang has its minimum of ranks": {
			previous: lifecycle.Pending,
			members:  lifecycle.Members{newMemberState("launcher", ready(1)), elastic},
			want:     lifecycle.Running,
			message:  "At least 3 ranks have been ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.members.Phase(c.previous)
			if got != c.want {
				t.Errorf("from %q: got %q, want %q", c.previous, got, c.want)
			}
			if diff := cmp.Diff(c.message, c.members.Describe(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestObserveMembers(t *testing.T) {
	f := gang.Framework{
		Name:        "horovod",
		ElasticRole: "worker",
		Roles:       []gang.Role{{Name: "launcher", MaxPods: 1, DeterminesCompletion: true}, {Name: "worker"}},
	}
	g := gang.Gang{Framework: f, Elastic: &gang.ElasticBounds{Min: 2, Max: 6}, Members: []gang.Member{
		{Role: "launcher", WorkloadName: "train-launcher", Size: 1}, {Role: "worker", WorkloadName: "train-worker", Size: 4}}}
	seen := lifecycle.Observation{Size: 5, ReadyPods: 5}
	got := lifecycle.ObserveMembers(
		g,
		func(name string) (lifecycle.Observation, bool) { return seen, name == "train-worker" },
	)
	want := lifecycle.Members{
		{Member: g.Members[0], MinReady: 1, DeterminesCompletion: true},
		{Member: g.Members[1], Exists: true, MinReady: 2, Observed: seen},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	single := gang.Gang{Framework: f, Elastic: &gang.ElasticBounds{Min: 2, Max: 6}, Members: g.Members[1:]}
	find := func(string) (lifecycle.Observation, bool) { return lifecycle.Observation{Size: 4, ReadyPods: 2}, true }
	if got := lifecycle.ObserveMembers(single, find).Phase(""); got != lifecycle.Running {
		t.Errorf("phase of an elastic gang with its minimum of ranks: %s", got)
	}
}

// TestTerminalPhaseIsStable checks that the phase of a finished gang does not change, whatever
// happens to its members, and that it does not depend on their order.
func TestTerminalPhaseIsStable(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		members := lifecycle.Members{}
		for _, role := range []string{"launcher", "worker", "ps", "evaluator"}[random.IntN(2):] {
			members = append(members, newMemberState(role, lifecycle.Observation{Size: 1 + random.Int32N(3)}))
		}
		var now, end lifecycle.Phase
		for second := range 30 {
			disturbMember(random, members, second, end)
			next := members.Phase(now)
			shuffled := append(lifecycle.Members(nil), members...)
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if other := shuffled.Phase(now); other != next {
				t.Fatalf("seed %d: phase %s, and %s in another order:\n%+v", seed, next, other, members)
			}
			if end != "" && next != end {
				t.Fatalf("seed %d: %s became %s:\n%+v", seed, end, next, members)
			}
			if next.Terminal() {
				end = next
			}
			now = next
		}
	}
}

// disturbMember changes one member as a cluster may. A workload finishes once, and a member of a
// finished gang may be deleted.
func disturbMember(random *rand.Rand, members lifecycle.Members, second int, end lifecycle.Phase) {
	e := &members[random.IntN(len(members))]
	seen := &e.Observed
	if end != "" && random.IntN(4) == 0 {
		e.Exists, e.Observed = false, lifecycle.Observation{}
		return
	}
	if !e.Exists || seen.Complete || seen.Failed {
		return
	}
	switch random.IntN(8) {
	case 0:
		seen.Complete, seen.FinishTime = true, afterGangStart(second/2) // two members may finish in the same second
	case 1:
		seen.Failed, seen.FinishTime = true, afterGangStart(second/2)
	case 2:
		seen.Suspended = !seen.Suspended
	case 3:
		e.Exists = !e.Exists || end != "" // created later, or deleted
	default:
		seen.ActivePods = random.Int32N(seen.Size + 1)
		seen.ReadyPods = random.Int32N(seen.ActivePods + 1)
	}
}
