package gang_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
)

func TestBackoff(t *testing.T) {
	for n, want := range map[int32]time.Duration{
		0: 0, 1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 4: 40 * time.Second, 5: 80 * time.Second, 6: 160 * time.Second,
		7: 5 * time.Minute, 8: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		if got := gang.Backoff(n); got != want {
			t.Errorf("before restart %d: %s, want %s", n, got, want)
		}
	}
}

// gangOf is the life of most gangs.
var gangOf = gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 3, Clean: gang.CleanRunning}

// sight is a look at a gang of one workload, 10 s after its pods began.
func sight(seen gang.Observation, change ...func(*gang.Sight)) gang.Sight {
	if seen.Size == 0 && !seen.Set {
		seen.Size = 2
	}
	s := gang.Sight{Roll: gang.Alone(seen), Now: second(10)}
	for _, c := range change {
		c(&s)
	}
	return s
}

// among is a look at a gang of two workloads.
func among(a, b gang.Observation) gang.Sight {
	return gang.Sight{Now: second(10), Roll: gang.Roll{{Here: true, Least: a.Size, Seen: a}, {Here: true, Least: b.Size, Seen: b}}}
}

func fell(s *gang.Sight) {
	s.Fall = &gang.Fall{Rank: 1, Container: "trainer", Reason: "Error", ExitCode: 3, At: second(9)}
}
func stopped(s *gang.Sight) { s.Stopped = true }
func leaving(s *gang.Sight) { s.Leaving = true }
func resumed(s *gang.Sight) { s.Resumed = true }
func lookedAt(n int) func(*gang.Sight) {
	return func(s *gang.Sight) { s.Now = second(n) }
}

func TestStateNext(t *testing.T) {
	begun := second(0)
	cause := &gang.Fall{Rank: 1, Container: "trainer", Reason: "Error", ExitCode: 3, At: second(9)}
	running := gang.State{Phase: gang.Running, Since: second(5), Begun: begun}
	ready := gang.Observation{Ready: 2, Present: 2}
	held := gang.Observation{Suspended: true, Stopped: true}
	inQueue := gang.Observation{Suspended: true, Stopped: true, Queued: true}
	restarting := gang.State{Phase: gang.Restarting, Since: second(8), Attempt: 2, Begun: begun, Fell: second(8), NotBefore: second(18), Cause: cause}
	last := running
	last.Attempt = 3
	never := gangOf
	never.Restart = gang.RestartNever
	final := gangOf
	final.Final, _ = gang.ParseExitCodes("1-127") // its errors have a test of their own
	signal := func(s *gang.Sight) { fell(s); s.Fall.ExitCode = 137 }
	early := func(s *gang.Sight) { fell(s); s.Fall.At = second(3) }
	killed := restarting
	killed.Cause = &gang.Fall{Rank: 0, Reason: "OOMKilled", ExitCode: 137, At: second(7)}
	pod := gangOf
	pod.Restart = gang.RestartPod
	timed := gangOf
	timed.StartTimeout = 8 * time.Second
	failed := gang.State{Phase: gang.Failed, Since: second(5), Attempt: 3, Begun: begun, Fell: second(4), Cause: cause}
	suspended := gang.State{Phase: gang.Suspended, Since: second(5), Begun: begun}
	for name, c := range map[string]struct {
		reason string
		from   gang.State
		life   gang.Lifecycle
		see    gang.Sight
		phase  gang.Phase
		try    int32
		also   func(gang.State) string
	}{
		"well":          {"", running, gangOf, sight(ready), gang.Running, 0, nil},
		"falls":         {"the first restart needs no wait", running, gangOf, sight(ready, fell), gang.Restarting, 1, wants("not before", second(10), notBefore)},
		"falls pending": {"a gang may fall before it was whole", gang.State{Phase: gang.Pending, Begun: begun}, gangOf, sight(gang.Observation{}, fell), gang.Restarting, 1, nil},
		"falls again": {"the second restart waits", gang.State{Phase: gang.Running, Attempt: 1, Begun: begun}, gangOf, sight(ready, fell), gang.Restarting, 2,
			wants("not before", second(20), notBefore)},
		"falls at last": {"", last, gangOf, sight(ready, fell), gang.Failed, 3, nil},
		"never":         {"its user wants no restart", running, never, sight(ready, fell), gang.Failed, 0, nil},
		"final":         {"its user knows that another try ends the same", running, final, sight(ready, fell), gang.Failed, 0, nil},
		"final, of a helper": {"an init container that could not fetch its data may do better", running, final,
			sight(ready, func(s *gang.Sight) { fell(s); s.Fall.Container, s.Fall.Helper = "fetch", true }), gang.Restarting, 1, nil},
		"final, of a peer": {"the rank that it lost may have ended by a signal, and be reported next", running, final,
			sight(ready, func(s *gang.Sight) { fell(s); s.Fall.Peer = true }), gang.Restarting, 1, nil},
		"final, told":          {"it may have been stopped for another", killed, final, sight(held, func(s *gang.Sight) { early(s); s.Fall.Told = true }), gang.Restarting, 2, nil},
		"not final":            {"a signal is no end by itself", running, final, sight(ready, signal), gang.Restarting, 1, nil},
		"final, reported late": {"the first to fall ended with it, and others were reported before", killed, final, sight(held, early), gang.Failed, 2, nil},
		"final, but later":     {"what ranks end with that are told to stop says nothing", killed, final, sight(held, fell), gang.Restarting, 2, nil},
		"pod":                  {"that is left to its workload", running, pod, sight(ready, fell), gang.Running, 0, nil},
		"unseen":               {"the Job counts a pod that was gone before anybody looked", running, gangOf, sight(gang.Observation{Ready: 1, Present: 1, Fallen: 1}), gang.Restarting, 1, nil},
		"counted before":       {"a pod that the last attempt lost is no fall of this one", gang.State{Phase: gang.Running, Begun: begun, Counted: 1}, gangOf, sight(gang.Observation{Ready: 2, Present: 2, Fallen: 1}), gang.Running, 0, nil},
		"done before":          {"Kubernetes never starts a rank again that is done", running, gangOf, sight(gang.Observation{Ready: 1, Present: 2, Done: 1}, fell), gang.Failed, 0, nil},
		"ending":               {"its pods go since the Job has its verdict", running, gangOf, sight(gang.Observation{Ready: 1, Present: 2, Ending: true}, fell), gang.Running, 0, nil},
		"verdict":              {"the Job's own verdict is final", running, gangOf, sight(gang.Observation{Failed: true}, fell), gang.Failed, 0, nil},
		"late":                 {"", gang.State{Phase: gang.Pending, Begun: begun}, timed, sight(gang.Observation{}), gang.Restarting, 1, nil},
		"not late":             {"", gang.State{Phase: gang.Pending, Begun: begun}, timed, sight(gang.Observation{}, lookedAt(7)), gang.Pending, 0, nil},
		"never late":           {"a gang that was whole once is not late", running, timed, sight(gang.Observation{Ready: 1, Present: 2}, lookedAt(99)), gang.Running, 0, nil},
		"held, not late":       {"nobody can start while the gang is held back", gang.State{Phase: gang.Pending, Begun: begun}, timed, sight(gang.Observation{Suspended: true}), gang.Suspended, 0, nil},
		"pods left":            {"ranks of two attempts must not meet", restarting, gangOf, sight(held, lookedAt(60)), gang.Restarting, 2, nil},
		"waits":                {"", restarting, gangOf, sight(held, stopped, lookedAt(17)), gang.Restarting, 2, nil},
		"let go":               {"", restarting, gangOf, sight(gang.Observation{Suspended: true, Stopped: true, Fallen: 2}, stopped, lookedAt(18)), gang.Pending, 2, wants("counted", int32(2), counted)},
		"let go, not counted": {"a Job that counts by rank counts what fell when it replaces it", restarting, gangOf,
			sight(gang.Observation{Suspended: true, Stopped: true, Fallen: 2}, stopped, lookedAt(18), func(s *gang.Sight) { s.Uncounted = 3 }),
			gang.Pending, 2, wants("counted", int32(5), counted)},
		"falls meanwhile":        {"what ends now was told to", restarting, gangOf, sight(held, fell), gang.Restarting, 2, nil},
		"in a queue":             {"its queue lets it go, and not Rollcall", restarting, gangOf, sight(inQueue, stopped, lookedAt(18)), gang.Suspended, 2, wants("not before", time.Time{}, notBefore)},
		"in a queue, pods left":  {"the queue must not let it go yet", restarting, gangOf, sight(inQueue, lookedAt(60)), gang.Restarting, 2, nil},
		"in a queue, waits":      {"the back-off is the gang's, and not the queue's", restarting, gangOf, sight(inQueue, stopped, lookedAt(17)), gang.Restarting, 2, nil},
		"in a queue, one of two": {"the other waits with it", restarting, gangOf, func() gang.Sight { s := among(held, inQueue); s.Stopped, s.Now = true, second(18); return s }(), gang.Suspended, 2, nil},
		"in a queue, let go":     {"", gang.State{Phase: gang.Suspended, Attempt: 2, Fell: second(1)}, gangOf, sight(gang.Observation{Queued: true, Fallen: 2}), gang.Pending, 2, wants("counted", int32(2), counted)},
		"in a queue, no room":    {"", gang.State{Phase: gang.Suspended, Attempt: 2}, gangOf, sight(gang.Observation{Suspended: true, Queued: true}), gang.Suspended, 2, nil},
		"in a queue, taken out":  {"what a queue takes away never fell", running, gangOf, sight(gang.Observation{Suspended: true, Queued: true}, fell), gang.Suspended, 0, nil},
		"in a queue, resumed":    {"Rollcall could not be called", restarting, gangOf, sight(gang.Observation{Present: 2, Queued: true}, resumed), gang.Pending, 2, nil},
		"resumed":                {"another let it go; to stop it again would be a quarrel", restarting, gangOf, sight(gang.Observation{Present: 2}, resumed), gang.Pending, 2, nil},
		"resumed, old pods leave": {"their Job counts them as failed, which must not be another fall", restarting, gangOf,
			sight(gang.Observation{Present: 2}, resumed, leaving), gang.Restarting, 2, nil},
		"failed is final":   {"whatever its pods do then", failed, gangOf, sight(ready), gang.Failed, 3, nil},
		"failed, set again": {"scaled up by its user, it begins another life", failed, gangOf, sight(gang.Observation{Set: true, Size: 2}, resumed), gang.Pending, 0, nil},
		"done, set again": {"with all of its restarts", gang.State{Phase: gang.Succeeded, Attempt: 3}, gangOf,
			sight(gang.Observation{Set: true, Size: 2}, resumed), gang.Pending, 0, nil},
		"done, set rests": {"", gang.State{Phase: gang.Succeeded}, gangOf, sight(gang.Observation{Set: true, Suspended: true, Stopped: true}), gang.Succeeded, 0, nil},
		"suspended":       {"a gang that its user holds back never fell", running, gangOf, sight(gang.Observation{Suspended: true}, fell), gang.Suspended, 0, nil},
		"suspended meanwhile": {"it stays held back when its pods are gone and the back-off is over", restarting, gangOf,
			sight(gang.Observation{Suspended: true}, stopped, lookedAt(60)), gang.Suspended, 2, nil},
		"suspended meanwhile, one of two": {"the other stays stopped", suspended, gangOf, among(gang.Observation{Size: 2, Suspended: true}, gang.Observation{Size: 2, Suspended: true, Stopped: true}), gang.Suspended, 0, nil},
		"resumed, one of two stopped":     {"and is let go after it", suspended, gangOf, among(gang.Observation{Size: 2}, gang.Observation{Size: 2, Suspended: true, Stopped: true}), gang.Pending, 0, nil},
		"resumed by user":                 {"", suspended, gangOf, sight(gang.Observation{}), gang.Pending, 0, nil},
		"resumed, pods leave":             {"pods that went since it was held back are no fall", suspended, gangOf, sight(gang.Observation{}, fell, leaving), gang.Suspended, 0, nil},
		"resumed, pods counted":           {"nor are they when their Job counts them", suspended, gangOf, sight(gang.Observation{Fallen: 2}), gang.Pending, 0, nil},
		"one member not let go":           {"the first of two members was let go, and the second not yet", gang.State{Phase: gang.Pending, Attempt: 1, Begun: begun}, gangOf, sight(held), gang.Pending, 1, nil},
		"starting":                        {"", gang.State{Phase: gang.Pending, Begun: begun}, gangOf, sight(gang.Observation{Ready: 1, Present: 2}, func(s *gang.Sight) { s.Started = true }), gang.Starting, 0, nil},
		"starting goes not back":          {"", gang.State{Phase: gang.Starting, Begun: begun}, gangOf, sight(gang.Observation{Present: 2}), gang.Starting, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.from.Next(c.life, c.see)
			if got.Phase != c.phase || got.Attempt != c.try {
				t.Errorf("%s: %s, attempt %d; want %s, %d", c.reason, got.Phase, got.Attempt, c.phase, c.try)
			}
			if c.also != nil {
				if wrong := c.also(got); wrong != "" {
					t.Errorf("%s: %s", c.reason, wrong)
				}
			}
			if said := got.Describe(c.life, c.see.Roll); said == "" || strings.Contains(said, "nil") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func wants[T any](what string, want T, of func(gang.State) T) func(gang.State) string {
	return func(s gang.State) string {
		if diff := cmp.Diff(want, of(s)); diff != "" {
			return what + ": " + diff
		}
		return ""
	}
}

func notBefore(s gang.State) time.Time { return s.NotBefore }
func counted(s gang.State) int32       { return s.Counted }

// model is a Job, its pods and its controller, as far as a gang's life sees them.
type model struct {
	*rand.Rand
	life  gang.Lifecycle
	state gang.State
	now   time.Time
	pods  []modelPod
	// counted are pods that the Job has counted as failed, uncounted those that it has not yet.
	counted, uncounted          int32
	ours, users, complete, dead bool
	// hurt is true when a rank fell in the present attempt; incidents counts how often that came about.
	hurt      bool
	incidents int32
	log       []string
}

type modelPod struct {
	ready, leaving, counted bool
	fall                    *gang.Fall
	asked                   time.Time // to leave
}

const modelSize = 3

// look is what one sees now.
func (m *model) look() gang.Sight {
	o := gang.Observation{Size: modelSize, Suspended: m.ours || m.users, Stopped: m.ours, Fallen: m.counted, Complete: m.complete, Failed: m.dead}
	see := gang.Sight{Now: m.now}
	for _, p := range m.pods {
		if p.leaving {
			see.Leaving = true
			if p.asked.After(m.state.Begun) {
				see.Fall = gang.Earlier(see.Fall, &gang.Fall{Reason: gang.FallDeleted, At: p.asked})
			}
			continue
		}
		o.Present++
		if p.ready {
			o.Ready++
		}
		see.Fall = gang.Earlier(see.Fall, p.fall)
	}
	o.Halted = o.Suspended && len(m.pods) == 0
	see.Roll = gang.Alone(o)
	see.Stopped = see.Roll.Halted()
	return see
}

// step lets something happen.
func (m *model) step() string {
	held := m.ours || m.users
	switch m.IntN(8) {
	case 0:
		m.now = m.now.Add(time.Duration(m.IntN(30)) * time.Second)
		return "time"
	case 1: // the Job's controller
		switch {
		case m.complete || m.dead:
			m.pods = nil
		case held:
			for i := range m.pods {
				if !m.pods[i].leaving {
					m.pods[i].leaving, m.pods[i].asked = true, m.now
				}
			}
		default:
			for i, p := range m.pods {
				if p.leaving && !p.counted { // not while it is held back
					m.pods[i].counted, m.counted = true, m.counted+1
				}
			}
			for len(m.pods) < modelSize {
				m.pods = append(m.pods, modelPod{})
			}
		}
		m.counted, m.uncounted = m.counted+m.uncounted, 0
		return "controller"
	case 2: // the kubelet
		var left []modelPod
		for _, p := range m.pods {
			if !p.leaving || m.IntN(2) == 0 {
				p.ready = !p.leaving
				left = append(left, p)
			}
		}
		m.pods = left
		return "kubelet"
	case 3, 4, 5:
		return m.fall()
	case 6:
		if m.IntN(4) > 0 || m.ours || m.state.Phase == gang.Restarting {
			return "nothing"
		}
		m.users = !m.users
		return fmt.Sprintf("user holds it: %v", m.users)
	default:
		if m.state.Phase == gang.Running && !m.hurt && !held && m.IntN(10) == 0 {
			m.complete = true
			return "complete"
		}
		return "nothing"
	}
}

// fall lets a rank fall, which may be seen or, if its pod goes at once, not.
func (m *model) fall() string {
	if m.ours || m.users || m.complete || m.dead || len(m.pods) == 0 || m.state.Phase.Terminal() || m.state.Phase == gang.Suspended {
		return "nothing"
	}
	i := m.IntN(len(m.pods))
	if m.pods[i].leaving {
		return "nothing"
	}
	if !m.hurt {
		m.hurt, m.incidents = true, m.incidents+1
	}
	if m.IntN(3) == 0 {
		m.pods = append(m.pods[:i], m.pods[i+1:]...)
		m.uncounted++
		return fmt.Sprintf("rank %d is gone", i)
	}
	m.pods[i].fall = &gang.Fall{Rank: int32(i), Reason: "Error", ExitCode: 1, At: m.now}
	return fmt.Sprintf("rank %d falls", i)
}

// follow looks, as often as the cache has news, and does what the state asks.
func (m *model) follow(t *testing.T) {
	t.Helper()
	see, before := m.look(), m.state
	m.state = before.Next(m.life, see)
	if again := m.state.Next(m.life, see); !cmp.Equal(m.state, again) {
		// The first look after a restart began may end it, since nothing was left to stop.
		if before.Phase == m.state.Phase || m.state.Phase != gang.Restarting || again.Phase != gang.Pending {
			t.Fatalf("looked at again with nothing moved:\n%s", cmp.Diff(m.state, again))
		}
	}
	switch {
	case before.Phase == gang.Restarting && m.state.Phase == gang.Pending:
		if !see.Stopped || see.Now.Before(before.NotBefore) {
			t.Fatalf("let go when stopped is %v, %s before its time", see.Stopped, before.NotBefore.Sub(see.Now))
		}
	case before.Phase.Terminal() && m.state.Phase != before.Phase:
		t.Fatalf("%s became %s", before.Phase, m.state.Phase)
	}
	switch m.state.Phase {
	case gang.Restarting:
		m.ours = true
	case gang.Failed:
		m.dead = true
	case gang.Pending:
		if m.ours {
			m.ours, m.hurt = false, false
		}
	}
}

// TestStateRandom: whatever befalls a gang in whatever order, one incident is one attempt.
func TestStateRandom(t *testing.T) {
	for seed := range uint64(400) {
		m := &model{Rand: rand.New(rand.NewPCG(seed, 1)), life: gangOf, now: podsBegan, state: gang.State{Begun: podsBegan}}
		m.life.MaxRestarts = int32(m.IntN(5))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(m.log, "\n"))
				}
			}()
			for range 300 {
				what := m.step()
				if m.IntN(3) > 0 { // not each event is looked at by itself
					m.follow(t)
				}
				m.log = append(m.log, fmt.Sprintf("%s: %s, attempt %d, held by us %v; incidents %d", what, m.state.Phase, m.state.Attempt, m.ours, m.incidents))
				if m.state.Attempt > m.incidents || m.state.Attempt > m.life.MaxRestarts {
					t.Fatalf("attempt %d after %d incidents, of %d allowed", m.state.Attempt, m.incidents, m.life.MaxRestarts)
				}
				if m.state.Phase == gang.Failed && m.incidents != m.life.MaxRestarts+1 {
					t.Fatalf("failed after %d incidents, of %d restarts allowed", m.incidents, m.life.MaxRestarts)
				}
			}
		})
	}
}

// TestNativeFailure: when a Job has failed by its own rules, the first rank that fell is
// named; one that was only taken away with the Job is not.
func TestNativeFailure(t *testing.T) {
	failed := gang.Alone(gang.Observation{Size: 2, Failed: true, Message: "BackoffLimitExceeded"})
	for name, c := range map[string]struct {
		reason string
		fall   *gang.Fall
		want   bool
	}{
		"fell":       {"a container ended", &gang.Fall{Rank: 1, Container: "trainer", ExitCode: 9, Reason: "Error"}, true},
		"taken away": {"by the Job itself, when its deadline had passed", &gang.Fall{Rank: 1, Reason: gang.FallDeleted}, false},
		"nobody":     {"the pods are gone", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := gang.State{Phase: gang.Running}.Next(gang.Lifecycle{Restart: gang.RestartNever}, gang.Sight{Roll: failed, Fall: c.fall, Now: second(0)})
			if s.Phase != gang.Failed || (s.Cause != nil) != c.want {
				t.Errorf("%s: %s because of %v", c.reason, s.Phase, s.Cause)
			}
		})
	}
}

// TestDescribeBegin: a gang that Rollcall lets go says that it begins, and not that it is
// held back, which it is until that is written.
func TestDescribeBegin(t *testing.T) {
	see := sight(gang.Observation{Suspended: true, Stopped: true})
	s := gang.State{Phase: gang.Pending, Attempt: 2}
	if got, want := s.Describe(gangOf, see.Roll), "Attempt 2 of 3 begins"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
