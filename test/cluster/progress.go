package cluster

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	// announceDelay is how long a step runs before it is announced. Shorter steps are reported only
	// when they finish.
	announceDelay = 2 * time.Second
	// firstHeartbeat and maxHeartbeat bound the interval of the lines of a long step in a log. The
	// interval doubles. Without these lines, CI systems consider the job hung.
	firstHeartbeat = 15 * time.Second
	maxHeartbeat   = 2 * time.Minute
	// redrawInterval is the interval in which the line of the running steps changes on a terminal.
	redrawInterval = 500 * time.Millisecond
	// clearTerminalLine is the control sequence (ECMA-48) that clears the current line.
	clearTerminalLine = "\r\x1b[K"
)

// progress reports steps, which may run in parallel. On a terminal, the running steps share one
// line, which changes. In a log, a long step is announced and then reported in growing intervals.
// Finished steps have one line in both.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	columns func() int // the width of the terminal, or nil if w is not a terminal
	running []*runningStep
	drawn   bool // whether the line of the running steps is visible
}

type runningStep struct {
	what  string
	begin time.Time
	// describe returns what the step is doing. It may be nil.
	describe func() string
}

// newProgress returns a progress that writes to w, or w itself if it is a progress. So functions
// that accept an io.Writer share the line of their caller.
func newProgress(w io.Writer) *progress {
	if p, ok := w.(*progress); ok {
		return p
	}
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.columns = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return width
		}
	}
	return p
}

// runStep runs one step and reports its duration.
func (p *progress) runStep(what string, step func() error) error {
	return p.runDescribedStep(what, nil, step)
}

// runDescribedStep is runStep with a function that returns what the running step is doing. It is
// called from another goroutine.
func (p *progress) runDescribedStep(what string, describe func() string, step func() error) error {
	s := &runningStep{what: what, begin: time.Now(), describe: describe}
	p.mu.Lock()
	p.running = append(p.running, s)
	p.mu.Unlock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if p.columns != nil {
			p.redrawUntil(stop)
		} else {
			p.printHeartbeats(s, stop)
		}
	}()
	err := step()
	close(stop)
	<-stopped // testing panics if a goroutine logs after the test
	p.mu.Lock()
	p.running = slices.DeleteFunc(p.running, func(other *runningStep) bool { return other == s })
	p.mu.Unlock()
	if err != nil {
		p.printLine("%s: failed after %s", what, formatElapsed(s.begin))
		return err
	}
	p.printLine("%s: %s", what, formatElapsed(s.begin))
	return nil
}

func (p *progress) printHeartbeats(s *runningStep, stop <-chan struct{}) {
	next := time.NewTimer(announceDelay)
	defer next.Stop()
	for interval := firstHeartbeat; ; interval = min(2*interval, maxHeartbeat) {
		select {
		case <-stop:
			return
		case <-next.C:
			p.printLine("%s", s)
			next.Reset(interval)
		}
	}
}

func (p *progress) redrawUntil(stop <-chan struct{}) {
	next := time.NewTicker(redrawInterval)
	defer next.Stop()
	for {
		select {
		case <-stop:
			return
		case <-next.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// String returns the step with its state: "what ... 15 s, state".
func (s *runningStep) String() string {
	text := s.what + " ... " + formatElapsed(s.begin)
	if s.describe != nil {
		if state := s.describe(); state != "" {
			text += ", " + state
		}
	}
	return text
}

// draw replaces the line of the running steps on a terminal. The caller holds the mutex.
func (p *progress) draw() {
	var texts []string
	for _, s := range p.running {
		if time.Since(s.begin) >= redrawInterval {
			texts = append(texts, s.String())
		}
	}
	if len(texts) == 0 {
		return
	}
	line := []rune(strings.Join(texts, " | "))
	// A line that fills the terminal would wrap, and only its last part could be cleared.
	line = line[:min(len(line), max(p.columns()-1, 0))]
	_, _ = io.WriteString(p.w, clearTerminalLine+string(line)) // a failed write must not abort the step
	p.drawn = true
}

// Write writes a text of another function between the lines of the steps.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.w.Write(text)
}

func (p *progress) printLine(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	// A failed write must not abort the step.
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

// clear removes the line of the running steps. The caller holds the mutex.
func (p *progress) clear() {
	if p.drawn {
		_, _ = io.WriteString(p.w, clearTerminalLine)
		p.drawn = false
	}
}

func formatElapsed(begin time.Time) string {
	elapsed := time.Since(begin)
	if elapsed < 10*time.Second {
		return fmt.Sprintf("%.1f s", elapsed.Seconds())
	}
	return fmt.Sprintf("%.0f s", elapsed.Seconds())
}
