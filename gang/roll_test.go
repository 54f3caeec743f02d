package gang_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a moment by the seconds since a gang began.
func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

// entry is a member that is there.
func entry(role string, seen gang.Observation) gang.Entry {
	return gang.Entry{
		Member: gang.Member{Role: role, Workload: "train-" + role, Size: seen.Size},
		Here:   true, Least: seen.Size, Decides: role == "launcher", Seen: seen,
	}
}

func gone(role string, size int32) gang.Entry {
	e := entry(role, gang.Observation{Size: size})
	e.Here, e.Seen = false, gang.Observation{}
	return e
}

func TestNextOfSeveral(t *testing.T) {
	ready := func(n int32) gang.Observation { return gang.Observation{Size: n, Ready: n, Present: n} }
	complete := func(n int32, seconds int) gang.Observation {
		return gang.Observation{Size: n, Present: n, Complete: true, Ended: at(seconds)}
	}
	failed := func(n int32, seconds int) gang.Observation {
		return gang.Observation{Size: n, Failed: true, Message: "BackoffLimitExceeded: 1", Ended: at(seconds)}
	}
	elastic := entry("worker", gang.Observation{Size: 4, Ready: 2, Present: 2})
	elastic.Least = 2
	for name, c := range map[string]struct {
		reason  string
		now     gang.Phase
		roll    gang.Roll
		want    gang.Phase
		message string
	}{
		"all ready": {"", gang.Pending,
			gang.Roll{entry("launcher", ready(1)), entry("worker", ready(4))}, gang.Running, "All 5 ranks are ready"},
		"one member not ready": {"a gang runs as one or not at all", gang.Pending,
			gang.Roll{entry("launcher", ready(1)), entry("worker", gang.Observation{Size: 4, Ready: 3, Present: 4})}, gang.Pending, "Waiting until all 5 ranks are ready"},
		"one member ends before the other": {"", gang.Running,
			gang.Roll{entry("master", complete(1, 5)), entry("worker", ready(4))}, gang.Running, "All 5 ranks are ready"},
		"a rank fell": {"", gang.Running,
			gang.Roll{entry("launcher", ready(1)), entry("worker", gang.Observation{Size: 4, Ready: 3, Present: 3})}, gang.Pending, "Waiting until all 5 ranks are ready"},
		"missing": {"what is there may be ready, and is no gang", gang.Pending,
			gang.Roll{entry("launcher", ready(1)), gone("worker", 4)}, gang.Pending, "Waiting for train-worker (role worker, 4 pods)"},
		"two missing": {"", gang.Pending,
			gang.Roll{gone("launcher", 1), gone("worker", 4)}, gang.Pending, "Waiting for train-launcher (role launcher, 1 pod) and train-worker (role worker, 4 pods)"},
		"member deleted": {"", gang.Running,
			gang.Roll{entry("launcher", ready(1)), gone("worker", 4)}, gang.Pending, "Waiting for train-worker (role worker, 4 pods)"},
		"one held back": {"", gang.Running,
			gang.Roll{entry("launcher", ready(1)), entry("worker", gang.Observation{Suspended: true})}, gang.Pending, "Held back: no rank is to run"},
		"launcher done": {"its end is the gang's, whatever the workers do", gang.Running,
			gang.Roll{entry("launcher", complete(1, 9)), entry("worker", ready(4))}, gang.Succeeded, "The gang is done"},
		"workers done": {"they do not decide", gang.Running,
			gang.Roll{entry("launcher", ready(1)), entry("worker", complete(4, 9))}, gang.Running, "All 5 ranks are ready"},
		"nobody decides, one done": {"", gang.Running,
			gang.Roll{entry("worker", complete(4, 9)), entry("ps", ready(1))}, gang.Running, "All 5 ranks are ready"},
		"nobody decides, all done": {"", gang.Running,
			gang.Roll{entry("worker", complete(4, 9)), entry("ps", complete(1, 3))}, gang.Succeeded, "The gang is done"},
		"worker failed": {"", gang.Running,
			gang.Roll{entry("launcher", ready(1)), entry("worker", failed(4, 9))}, gang.Failed, "The gang failed: train-worker: BackoffLimitExceeded: 1"},
		"worker failed, another is missing": {"a verdict does not wait", gang.Pending,
			gang.Roll{gone("launcher", 1), entry("worker", failed(4, 9))}, gang.Failed, "The gang failed: train-worker: BackoffLimitExceeded: 1"},
		"worker failed after the launcher": {"its sshd was ended, as a gang's end does", gang.Running,
			gang.Roll{entry("launcher", complete(1, 9)), entry("worker", failed(4, 10))}, gang.Succeeded, "The gang is done"},
		"worker failed before the launcher": {"nobody looked in between", gang.Running,
			gang.Roll{entry("launcher", complete(1, 10)), entry("worker", failed(4, 9))}, gang.Failed, "The gang failed: train-worker: BackoffLimitExceeded: 1"},
		"in the same second": {"the one that decides is believed", gang.Running,
			gang.Roll{entry("launcher", complete(1, 9)), entry("worker", failed(4, 9))}, gang.Succeeded, "The gang is done"},
		"launcher done after the failure": {"what was told stays", gang.Failed,
			gang.Roll{entry("launcher", complete(1, 9)), entry("worker", failed(4, 9))}, gang.Failed, "The gang failed: train-worker: BackoffLimitExceeded: 1"},
		"launcher gone after its success": {"a Job with a time to live takes its verdict along", gang.Succeeded,
			gang.Roll{gone("launcher", 1), entry("worker", ready(4))}, gang.Succeeded, "The gang is done"},
		"launcher created anew": {"what is there is believed before what was written", gang.Succeeded,
			gang.Roll{entry("launcher", gang.Observation{Size: 1}), entry("worker", ready(4))}, gang.Pending, "Waiting until all 5 ranks are ready"},
		"failed worker taken away": {"", gang.Failed,
			gang.Roll{entry("launcher", ready(1)), gone("worker", 4)}, gang.Failed, "The gang failed"},
		"success by hand": {"the member that would know is there", gang.Succeeded,
			gang.Roll{entry("launcher", ready(1)), gone("worker", 4)}, gang.Pending, "Waiting for train-worker (role worker, 4 pods)"},
		"elastic": {"as many as it takes are there", gang.Pending,
			gang.Roll{entry("launcher", ready(1)), elastic}, gang.Running, "At least 3 ranks are ready"},
	} {
		t.Run(name, func(t *testing.T) {
			got := gang.Next(c.now, c.roll)
			if got != c.want {
				t.Errorf("%s: from %q: got %q, want %q", c.reason, c.now, got, c.want)
			}
			if diff := cmp.Diff(c.message, c.roll.Describe(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestCall(t *testing.T) {
	f := gang.Framework{Name: "horovod", Elastic: "worker", Roles: []gang.Role{{Name: "launcher", Max: 1, Decides: true}, {Name: "worker"}}}
	g := gang.Gang{Framework: f, Elastic: &gang.Elastic{Min: 2, Max: 6}, Members: []gang.Member{
		{Role: "launcher", Workload: "train-launcher", Size: 1}, {Role: "worker", Workload: "train-worker", Size: 4}}}
	seen := gang.Observation{Size: 5, Ready: 5}
	got := gang.Call(g, func(name string) (gang.Observation, bool) { return seen, name == "train-worker" })
	want := gang.Roll{
		{Member: g.Members[0], Least: 1, Decides: true},
		{Member: g.Members[1], Here: true, Least: 2, Seen: seen},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := gang.Next("", gang.Call(gang.Gang{Framework: f, Elastic: &gang.Elastic{Min: 2, Max: 6}, Members: g.Members[1:]},
		func(string) (gang.Observation, bool) { return gang.Observation{Size: 4, Ready: 2}, true })); got != gang.Running {
		t.Errorf("an elastic gang of one workload with as many ranks as it takes is %s", got)
	}
}

// TestEndStays: whatever is seen of a gang after its end, and in whatever order its
// members are named, its phase does not move any more.
func TestEndStays(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		roll := gang.Roll{}
		for _, role := range []string{"launcher", "worker", "ps", "evaluator"}[random.IntN(2):] {
			roll = append(roll, entry(role, gang.Observation{Size: 1 + random.Int32N(3)}))
		}
		var now, end gang.Phase
		for second := range 30 {
			disturb(random, roll, second, end)
			next := gang.Next(now, roll)
			shuffled := append(gang.Roll(nil), roll...)
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if other := gang.Next(now, shuffled); other != next {
				t.Fatalf("seed %d: %s, and in another order %s:\n%+v", seed, next, other, roll)
			}
			if end != "" && next != end {
				t.Fatalf("seed %d: %s became %s:\n%+v", seed, end, next, roll)
			}
			if next.Terminal() {
				end = next
			}
			now = next
		}
	}
}

// disturb does to one member what a cluster may do. A verdict is given once, and a
// member is taken away for good only when the gang has ended.
func disturb(random *rand.Rand, roll gang.Roll, second int, end gang.Phase) {
	e := &roll[random.IntN(len(roll))]
	seen := &e.Seen
	if end != "" && random.IntN(4) == 0 {
		e.Here, e.Seen = false, gang.Observation{}
		return
	}
	if !e.Here || seen.Complete || seen.Failed {
		return
	}
	switch random.IntN(8) {
	case 0:
		seen.Complete, seen.Ended = true, at(second/2) // two in a second may well be
	case 1:
		seen.Failed, seen.Ended = true, at(second/2)
	case 2:
		seen.Suspended = !seen.Suspended
	case 3:
		e.Here = !e.Here || end != "" // not there yet
	default:
		seen.Present = random.Int32N(seen.Size + 1)
		seen.Ready = random.Int32N(seen.Present + 1)
	}
}
