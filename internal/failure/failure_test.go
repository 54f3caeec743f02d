package failure_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

func newExitFailure(rank int32, seconds int) *failure.Failure {
	return &failure.Failure{Rank: rank, Container: "trainer", Reason: "Error", ExitCode: 1, Time: podtest.At(seconds)}
}

func withExitCode(f *failure.Failure, code int32) *failure.Failure { f.ExitCode = code; return f }

func withLostPeer(f *failure.Failure) *failure.Failure { f.LostPeer = true; return f }

func withDetectedTime(f *failure.Failure, ms int) *failure.Failure {
	f.DetectedTime = f.Time.Add(time.Duration(ms) * time.Millisecond)
	return f
}

func withPodName(f *failure.Failure, name string) *failure.Failure { f.Pod = name; return f }

func withMaybeTerminated(f *failure.Failure) *failure.Failure { f.MaybeTerminated = true; return f }

func newOOMKilledFailure(rank int32, seconds int) *failure.Failure {
	return &failure.Failure{
		Rank:      rank,
		Container: "trainer",
		Reason:    "OOMKilled",
		ExitCode:  137,
		Time:      podtest.At(seconds),
	}
}

func newPodFailure(rank int32, seconds int, reason string) *failure.Failure {
	return &failure.Failure{Rank: rank, Reason: reason, Time: podtest.At(seconds)}
}

// TestEarlierOf checks that the first failure is the rank that its peers lost, in whatever order
// the failures are reported.
func TestEarlierOf(t *testing.T) {
	unobserved := &failure.Failure{Rank: -1, Reason: failure.ReasonUnobserved, Time: podtest.At(10)}
	startTimeout := &failure.Failure{Rank: -1, Reason: failure.ReasonStartTimeout, Time: podtest.At(10)}
	for name, c := range map[string]struct {
		failures []*failure.Failure
		want     *failure.Failure
	}{
		"no failure": {failures: []*failure.Failure{nil, nil}},
		"one failure and nil": {
			failures: []*failure.Failure{nil, newExitFailure(1, 10)},
			want:     newExitFailure(1, 10),
		},
		"earlier failure comes first": {
			failures: []*failure.Failure{newExitFailure(1, 11), newExitFailure(2, 10)},
			want:     newExitFailure(2, 10),
		},
		"lower rank comes first if nothing else differs": {
			failures: []*failure.Failure{newExitFailure(2, 10), newExitFailure(1, 10)},
			want:     newExitFailure(1, 10),
		},
		"rank with a lost peer comes last": {
			failures: []*failure.Failure{withLostPeer(newExitFailure(1, 10)), newExitFailure(2, 10)},
			want:     newExitFailure(2, 10),
		},
		"rank that aborted because of a lost peer comes last": {
			failures: []*failure.Failure{withLostPeer(withExitCode(newExitFailure(1, 10), 139)), newExitFailure(2, 10)},
			want:     newExitFailure(2, 10),
		},
		"lost peer within the clock tolerance comes last": {
			failures: []*failure.Failure{withLostPeer(newExitFailure(1, 10)), newExitFailure(2, 11)},
			want:     newExitFailure(2, 11),
		},
		"lost peer long before another failure comes first": {
			failures: []*failure.Failure{withLostPeer(newExitFailure(1, 10)), newExitFailure(2, 12)},
			want:     withLostPeer(newExitFailure(1, 10)),
		},
		"terminated rank within the clock tolerance comes last": {
			failures: []*failure.Failure{withMaybeTerminated(newExitFailure(1, 10)), newExitFailure(2, 11)},
			want:     newExitFailure(2, 11),
		},
		"start timeout comes before a rank that may have been terminated": {
			failures: []*failure.Failure{withMaybeTerminated(newExitFailure(1, 10)), startTimeout},
			want:     startTimeout,
		},
		"detection time orders failures of the same second": {
			failures: []*failure.Failure{
				withDetectedTime(newExitFailure(1, 10), 700),
				withDetectedTime(newExitFailure(2, 10), 300),
				newExitFailure(0, 10),
			},
			want: withDetectedTime(newExitFailure(2, 10), 300),
		},
		"pod name orders failures of the same rank": {
			failures: []*failure.Failure{withPodName(newExitFailure(1, 10), "b"), withPodName(newExitFailure(1, 10), "a")},
			want:     withPodName(newExitFailure(1, 10), "a"),
		},
		"SIGABRT does not come before exit code 1": {
			failures: []*failure.Failure{newExitFailure(1, 10), withExitCode(newExitFailure(2, 10), 134)},
			want:     newExitFailure(1, 10),
		},
		"unobserved failure comes before a lost peer": {
			failures: []*failure.Failure{unobserved, withLostPeer(newExitFailure(1, 10))},
			want:     unobserved,
		},
		"exit code chosen by the program comes before 1": {
			failures: []*failure.Failure{newExitFailure(1, 10), withExitCode(newExitFailure(2, 10), 42)},
			want:     withExitCode(newExitFailure(2, 10), 42),
		},
		"signal comes before an exit code": {
			failures: []*failure.Failure{withExitCode(newExitFailure(1, 10), 42), withExitCode(newExitFailure(2, 10), 139)},
			want:     withExitCode(newExitFailure(2, 10), 139),
		},
		"SIGTERM does not come before exit code 1": {
			failures: []*failure.Failure{newExitFailure(1, 10), withExitCode(newExitFailure(2, 10), 143)},
			want:     newExitFailure(1, 10),
		},
		"rank that may have been terminated comes last": {
			failures: []*failure.Failure{withMaybeTerminated(withExitCode(newExitFailure(1, 10), 137)), newExitFailure(2, 10)},
			want:     newExitFailure(2, 10),
		},
		"rank that may have been terminated comes before a lost peer": {
			failures: []*failure.Failure{withLostPeer(newExitFailure(1, 10)), withMaybeTerminated(newExitFailure(2, 10))},
			want:     withMaybeTerminated(newExitFailure(2, 10)),
		},
		"OOM kill comes first in the same second": {
			failures: []*failure.Failure{newExitFailure(1, 10), newOOMKilledFailure(2, 10)},
			want:     newOOMKilledFailure(2, 10),
		},
		"OOM kill comes first within the clock tolerance": {
			failures: []*failure.Failure{newExitFailure(1, 10), newOOMKilledFailure(2, 11)},
			want:     newOOMKilledFailure(2, 11),
		},
		"OOM kill two seconds later is a consequence": {
			failures: []*failure.Failure{newExitFailure(1, 10), newOOMKilledFailure(2, 12)},
			want:     newExitFailure(1, 10),
		},
		"eviction comes first in the same second": {
			failures: []*failure.Failure{newExitFailure(0, 10), newPodFailure(3, 10, "EvictionByEvictionAPI")},
			want:     newPodFailure(3, 10, "EvictionByEvictionAPI"),
		},
		"deletion comes first in the same second": {
			failures: []*failure.Failure{
				newExitFailure(0, 11),
				newPodFailure(3, 11, failure.ReasonPodDeleted),
				newExitFailure(1, 11),
			},
			want: newPodFailure(3, 11, failure.ReasonPodDeleted),
		},
		"lost node comes first in the same second": {
			failures: []*failure.Failure{newExitFailure(0, 11), newPodFailure(3, 11, "DeletionByTaintManager")},
			want:     newPodFailure(3, 11, "DeletionByTaintManager"),
		},
		"tainted device comes first in the same second": {
			failures: []*failure.Failure{newExitFailure(0, 11), newPodFailure(3, 11, "DeletionByDeviceTaintManager")},
			want:     newPodFailure(3, 11, "DeletionByDeviceTaintManager"),
		},
		"earlier of two evictions comes first": {
			failures: []*failure.Failure{newPodFailure(0, 11, "Evicted"), newPodFailure(1, 10, "Evicted")},
			want:     newPodFailure(1, 10, "Evicted"),
		},
		"OOM kill long before an eviction comes first": {
			failures: []*failure.Failure{newPodFailure(0, 15, "Evicted"), newOOMKilledFailure(1, 10)},
			want:     newOOMKilledFailure(1, 10),
		},
		"exit on a node whose clock is behind follows the eviction": {
			failures: []*failure.Failure{newExitFailure(0, 15), newPodFailure(3, 20, "EvictionByEvictionAPI")},
			want:     newPodFailure(3, 20, "EvictionByEvictionAPI"),
		},
		"exit on a node whose clock is behind follows the deletion": {
			failures: []*failure.Failure{newExitFailure(0, 15), newPodFailure(3, 20, failure.ReasonPodDeleted)},
			want:     newPodFailure(3, 20, failure.ReasonPodDeleted),
		},
		"exit six seconds before an eviction comes first": {
			failures: []*failure.Failure{newExitFailure(0, 14), newPodFailure(3, 20, "EvictionByEvictionAPI")},
			want:     newExitFailure(0, 14),
		},
		"exit long before an eviction comes first": {
			failures: []*failure.Failure{newPodFailure(0, 20, "Evicted"), newExitFailure(1, 10)},
			want:     newExitFailure(1, 10),
		},
		"known rank comes before an unobserved failure": {
			failures: []*failure.Failure{unobserved, newExitFailure(1, 10)},
			want:     newExitFailure(1, 10),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				rand.Shuffle(len(c.failures), func(i, j int) { c.failures[i], c.failures[j] = c.failures[j], c.failures[i] })
				var got *failure.Failure
				for _, f := range c.failures {
					got = failure.EarlierOf(got, f)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Fatalf("first of %v (-want +got):\n%s", c.failures, diff)
				}
			}
		})
	}
}

// TestEarlierOfAnyOrder checks that the first of random failures does not depend on their order.
func TestEarlierOfAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 15))
	for range 500 {
		var failures []*failure.Failure
		for rank := range int32(2 + r.IntN(5)) {
			at := r.IntN(4)
			failures = append(failures, []*failure.Failure{
				newExitFailure(rank, at),
				withExitCode(newExitFailure(rank, at), 42),
				withExitCode(newExitFailure(rank, at), 139),
				withLostPeer(newExitFailure(rank, at)),
				withMaybeTerminated(newExitFailure(rank, at)),
				newOOMKilledFailure(rank, at),
				newPodFailure(rank, at, "Evicted"),
			}[r.IntN(7)])
		}
		failures = append(failures, &failure.Failure{Rank: -1, Reason: failure.ReasonUnobserved, Time: podtest.At(r.IntN(4))})
		var want *failure.Failure
		for order := range 5 {
			r.Shuffle(len(failures), func(i, j int) { failures[i], failures[j] = failures[j], failures[i] })
			var got *failure.Failure
			for _, f := range failures {
				got = failure.EarlierOf(got, f)
			}
			if want == nil {
				want = got
			}
			if got != want {
				t.Fatalf("order %d: the first of %v is %v, and %v in another order", order, failures, got, want)
			}
		}
	}
}
