package gang_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
)

func exits(rank int32, seconds int) *gang.Fall {
	return &gang.Fall{Rank: rank, Container: "trainer", Reason: "Error", ExitCode: 1, At: second(seconds)}
}

func code(f *gang.Fall, code int32) *gang.Fall { f.ExitCode = code; return f }

func peer(f *gang.Fall) *gang.Fall { f.Peer = true; return f }

func noticed(f *gang.Fall, ms int) *gang.Fall {
	f.Noticed = f.At.Add(time.Duration(ms) * time.Millisecond)
	return f
}

func podNamed(f *gang.Fall, name string) *gang.Fall { f.Pod = name; return f }

func told(f *gang.Fall) *gang.Fall { f.Told = true; return f }

func killed(rank int32, seconds int) *gang.Fall {
	return &gang.Fall{Rank: rank, Container: "trainer", Reason: "OOMKilled", ExitCode: 137, At: second(seconds)}
}

func takenAway(rank int32, seconds int, reason string) *gang.Fall {
	return &gang.Fall{Rank: rank, Reason: reason, At: second(seconds)}
}

// TestEarlier: the cause of a gang's fall is the rank that the others lost, in whatever
// order they are reported.
func TestEarlier(t *testing.T) {
	unseen := &gang.Fall{Rank: -1, Reason: gang.FallUnseen, At: second(10)}
	late := &gang.Fall{Rank: -1, Reason: gang.FallLate, At: second(10)}
	for name, c := range map[string]struct {
		reason string
		falls  []*gang.Fall
		want   *gang.Fall
	}{
		"none":                 {"", []*gang.Fall{nil, nil}, nil},
		"one":                  {"", []*gang.Fall{nil, exits(1, 10)}, exits(1, 10)},
		"by time":              {"", []*gang.Fall{exits(1, 11), exits(2, 10)}, exits(2, 10)},
		"by rank":              {"nothing else tells them apart", []*gang.Fall{exits(2, 10), exits(1, 10)}, exits(1, 10)},
		"a peer":               {"it lost the other, and says so", []*gang.Fall{peer(exits(1, 10)), exits(2, 10)}, exits(2, 10)},
		"a peer, killed":       {"JAX aborts the ranks that lose one", []*gang.Fall{peer(code(exits(1, 10), 139)), exits(2, 10)}, exits(2, 10)},
		"a peer, before":       {"the first may take longer to end than its peers do to miss it", []*gang.Fall{peer(exits(1, 10)), exits(2, 11)}, exits(2, 11)},
		"a peer, long before":  {"it lost another one, which is not known yet", []*gang.Fall{peer(exits(1, 10)), exits(2, 12)}, peer(exits(1, 10))},
		"told, by two clocks":  {"", []*gang.Fall{told(exits(1, 10)), exits(2, 11)}, exits(2, 11)},
		"told, and late":       {"nobody's fall has a reason of its own", []*gang.Fall{told(exits(1, 10)), late}, late},
		"noticed":              {"by a launcher, to the millisecond", []*gang.Fall{noticed(exits(1, 10), 700), noticed(exits(2, 10), 300), exits(0, 10)}, noticed(exits(2, 10), 300)},
		"two pods of a rank":   {"", []*gang.Fall{podNamed(exits(1, 10), "b"), podNamed(exits(1, 10), "a")}, podNamed(exits(1, 10), "a")},
		"aborted":              {"as peers do by themselves", []*gang.Fall{exits(1, 10), code(exits(2, 10), 134)}, exits(1, 10)},
		"a peer, unseen":       {"it may be the unseen that it lost", []*gang.Fall{unseen, peer(exits(1, 10))}, unseen},
		"a code":               {"chosen by the program, while 1 is anybody's", []*gang.Fall{exits(1, 10), code(exits(2, 10), 42)}, code(exits(2, 10), 42)},
		"a signal, and a code": {"", []*gang.Fall{code(exits(1, 10), 42), code(exits(2, 10), 139)}, code(exits(2, 10), 139)},
		"told to end":          {"143 is no word of the program", []*gang.Fall{exits(1, 10), code(exits(2, 10), 143)}, exits(1, 10)},
		"told":                 {"it may have ended for that", []*gang.Fall{told(code(exits(1, 10), 137)), exits(2, 10)}, exits(2, 10)},
		"told, and a peer":     {"which cannot be the first", []*gang.Fall{peer(exits(1, 10)), told(exits(2, 10))}, told(exits(2, 10))},
		"memory":               {"its peers lost it within the same second", []*gang.Fall{exits(1, 10), killed(2, 10)}, killed(2, 10)},
		"memory, a bit later":  {"the clocks of two nodes", []*gang.Fall{exits(1, 10), killed(2, 11)}, killed(2, 11)},
		"memory, much later":   {"it is a consequence", []*gang.Fall{exits(1, 10), killed(2, 12)}, exits(1, 10)},
		"evicted":              {"", []*gang.Fall{exits(0, 10), takenAway(3, 10, "EvictionByEvictionAPI")}, takenAway(3, 10, "EvictionByEvictionAPI")},
		"deleted":              {"", []*gang.Fall{exits(0, 11), takenAway(3, 11, gang.FallDeleted), exits(1, 11)}, takenAway(3, 11, gang.FallDeleted)},
		"node lost":            {"", []*gang.Fall{exits(0, 11), takenAway(3, 11, "DeletionByTaintManager")}, takenAway(3, 11, "DeletionByTaintManager")},
		"two from outside":     {"by time", []*gang.Fall{takenAway(0, 11, "Evicted"), killed(1, 10)}, killed(1, 10)},
		"long before":          {"a rank that fell by itself, and was drained then", []*gang.Fall{takenAway(0, 20, "Evicted"), exits(1, 10)}, exits(1, 10)},
		"unseen, and then was": {"a rank that is known says more", []*gang.Fall{unseen, exits(1, 10)}, exits(1, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				rand.Shuffle(len(c.falls), func(i, j int) { c.falls[i], c.falls[j] = c.falls[j], c.falls[i] })
				var got *gang.Fall
				for _, f := range c.falls {
					got = gang.Earlier(got, f)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Fatalf("%s: of %v (-want +got):\n%s", c.reason, c.falls, diff)
				}
			}
		})
	}
}

// TestEarlierAnyOrder: of any falls, the same one is the first in each order.
func TestEarlierAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 15))
	for range 500 {
		var falls []*gang.Fall
		for rank := range int32(2 + r.IntN(5)) {
			at := r.IntN(4)
			falls = append(falls, []*gang.Fall{exits(rank, at), code(exits(rank, at), 42), code(exits(rank, at), 139), peer(exits(rank, at)),
				told(exits(rank, at)), killed(rank, at), takenAway(rank, at, "Evicted")}[r.IntN(7)])
		}
		falls = append(falls, &gang.Fall{Rank: -1, Reason: gang.FallUnseen, At: second(r.IntN(4))})
		var want *gang.Fall
		for try := range 5 {
			r.Shuffle(len(falls), func(i, j int) { falls[i], falls[j] = falls[j], falls[i] })
			var got *gang.Fall
			for _, f := range falls {
				got = gang.Earlier(got, f)
			}
			if want == nil {
				want = got
			}
			if got != want {
				t.Fatalf("try %d of %v: %v, and %v before", try, falls, got, want)
			}
		}
	}
}

// TestCauseReportedLate: a root that is reported while the gang is stopped already takes
// the place of what was reported before it.
func TestCauseReportedLate(t *testing.T) {
	held := gang.Observation{Suspended: true, Stopped: true}
	for name, c := range map[string]struct {
		reason string
		from   gang.Phase
		late   *gang.Fall
		want   *gang.Fall
	}{
		"root":             {"", gang.Restarting, killed(0, 9), killed(0, 9)},
		"consequence":      {"", gang.Restarting, exits(0, 10), exits(2, 9)},
		"nothing":          {"", gang.Restarting, nil, exits(2, 9)},
		"told":             {"it may have been stopped", gang.Restarting, told(exits(0, 9)), exits(2, 9)},
		"root of the last": {"the gang has failed, and its cause is what its user looks for", gang.Failed, killed(0, 9), killed(0, 9)},
	} {
		t.Run(name, func(t *testing.T) {
			s := gang.State{Phase: c.from, Since: second(9), Attempt: 1, Begun: second(0), Fell: second(9), Cause: exits(2, 9)}
			see := sight(held, func(s *gang.Sight) { s.Fall = c.late })
			got := s.Next(gangOf, see)
			if diff := cmp.Diff(c.want, got.Cause); diff != "" || got.Phase != c.from || got.Attempt != 1 {
				t.Errorf("%s: %s of attempt %d, cause (-want +got):\n%s", c.reason, got.Phase, got.Attempt, diff)
			}
		})
	}
}

// TestCauseOfJobThatFails: a Job that fails by its own rules while its gang is stopped for
// another rank did so for that rank.
func TestCauseOfJobThatFails(t *testing.T) {
	failed := gang.Observation{Failed: true}
	for name, c := range map[string]struct {
		reason string
		from   gang.Phase
		late   *gang.Fall
		want   *gang.Fall
	}{
		"stopped for it":    {"the pod of the first is gone, and others ended since they were told to", gang.Restarting, told(exits(0, 9)), exits(2, 9)},
		"of its own accord": {"an earlier cause was that of an earlier attempt", gang.Running, exits(0, 30), exits(0, 30)},
	} {
		t.Run(name, func(t *testing.T) {
			s := gang.State{Phase: c.from, Since: second(9), Attempt: 1, Begun: second(0), Fell: second(9), Cause: exits(2, 9)}
			got := s.Next(gangOf, sight(failed, func(s *gang.Sight) { s.Fall = c.late }))
			if diff := cmp.Diff(c.want, got.Cause); diff != "" || got.Phase != gang.Failed {
				t.Errorf("%s: %s, cause (-want +got):\n%s", c.reason, got.Phase, diff)
			}
		})
	}
}
