package simulation

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// epoch is the start of the virtual time.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is the virtual time, the queue of events, and the source of all random numbers. Everything runs in
// one goroutine. The same seed and the same calm streams give the same run.
type world struct {
	seed  uint64
	calm  map[string]bool
	late  []lateStream
	now   time.Time
	queue eventQueue
	// added numbers the events, so that events of the same time run in the order in which they were added.
	added, executed int
	streams         map[string]*stream
	trace           []traceEntry
	// disturbed is true while requests may fail and passes are interrupted.
	disturbed bool
}

// event is something that happens at a time.
type event struct {
	time   time.Time
	number int
	run    func()
}

// eventQueue is a heap of events.
type eventQueue []*event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if q[i].time.Equal(q[j].time) {
		return q[i].number < q[j].number
	}
	return q[i].time.Before(q[j].time)
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *eventQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// traceEntry is a line of the report of a run.
type traceEntry struct {
	time        time.Time
	actor, text string
}

func newWorld(s Scenario) *world {
	w := &world{
		seed: s.Seed, calm: map[string]bool{}, late: s.Late, now: epoch, streams: map[string]*stream{}, disturbed: true,
	}
	for _, name := range s.Calm {
		w.calm[name] = true
	}
	return w
}

// record adds a line to the report.
func (w *world) record(actor, format string, args ...any) {
	w.trace = append(w.trace, traceEntry{time: w.now, actor: actor, text: fmt.Sprintf(format, args...)})
}

// at runs a function at a time.
func (w *world) at(t time.Time, run func()) {
	if t.Before(w.now) {
		t = w.now
	}
	w.added++
	heap.Push(&w.queue, &event{time: t, number: w.added, run: run})
}

// after runs a function after the next delay of a stream.
func (w *world) after(streamName string, run func()) { w.at(w.now.Add(w.delay(streamName)), run) }

// maxEvents limits the events of a run. A thousand are usual.
const maxEvents = 50_000

// runUntil runs all events until a time, and sets the virtual time to it. It runs no event beyond the limit.
func (w *world) runUntil(end time.Time) {
	for len(w.queue) > 0 && !w.queue[0].time.After(end) && w.executed < maxEvents {
		e := heap.Pop(&w.queue).(*event)
		if e.time.After(w.now) {
			w.now = e.time
		}
		w.executed++
		e.run()
	}
	if end.After(w.now) {
		w.now = end
	}
}

// stream is a source of random numbers with a mood. Each watch, each controller and each kind of request has
// its own stream, so that one of them is late independently of the others, and so that the numbers of one do
// not depend on how often another one draws.
type stream struct {
	*rand.Rand
	mood mood
}

// mood is how late the events of a stream are.
type mood int

const (
	calm mood = iota
	slow
	stalling
)

func (w *world) stream(name string) *stream {
	s, ok := w.streams[name]
	if !ok {
		actor, _, _ := strings.Cut(name, "/")
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(name)) // a hash never fails
		s = &stream{Rand: rand.New(rand.NewPCG(w.seed, hash.Sum64()))}
		switch n := s.IntN(20); {
		case w.calm[name] || w.calm[actor] || w.calm["*"] || n < 12:
		case n < 17:
			s.mood = slow
		default:
			s.mood = stalling
		}
		w.streams[name] = s
	}
	return s
}

// delay returns the next delay of a stream: milliseconds, or up to seconds if the stream is slow. A stalling
// stream is fast, except for one event of ten, which takes up to 20 seconds.
func (w *world) delay(name string) time.Duration {
	s := w.stream(name)
	short := time.Duration(1+s.IntN(30)) * time.Millisecond
	for _, l := range w.late {
		if now := w.now.Sub(epoch); l.Stream == name && now >= l.From && now < l.To {
			return l.To - now + short
		}
	}
	if !w.disturbed {
		return short
	}
	switch s.mood {
	case slow:
		return time.Duration(s.IntN(2500)) * time.Millisecond
	case stalling:
		if s.IntN(10) == 0 {
			return time.Duration(s.IntN(20000)) * time.Millisecond
		}
	}
	return short
}

// errFault ends a request of a controller of Kubernetes that the API server has not handled.
var errFault = errors.New("too many requests")

// fault returns [errFault] if the next request of a controller of Kubernetes fails, and nil if it does not.
func (w *world) fault(controller string) error {
	if w.disturbed && !w.calm["faults"] && w.stream(controller+"/faults").IntN(60) == 0 {
		return errFault
	}
	return nil
}

// noisyStreams returns the names of the streams that are not calm.
func (w *world) noisyStreams() []string {
	var out []string
	for name, s := range w.streams {
		if s.mood != calm {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
