package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// announceDelay is how long a step runs before it is announced. Shorter steps are reported only
	// when they finish.
	announceDelay = 2 * time.Second
	// heartbeatInterval is the interval of progress lines of a long step. Without them, CI systems
	// consider the job hung.
	heartbeatInterval = 15 * time.Second
)

// progress reports steps line by line, which is readable both on a terminal and in a log.
type progress struct {
	mu sync.Mutex
	w  io.Writer
}

// runStep runs one step and reports its duration.
func (p *progress) runStep(what string, step func() error) error {
	begin := time.Now()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p.printHeartbeats(what, begin, stop)
	}()
	err := step()
	close(stop)
	<-stopped // testing panics if a goroutine logs after the test
	if err != nil {
		p.printLine("%s: failed after %s", what, formatElapsed(begin))
		return err
	}
	p.printLine("%s: %s", what, formatElapsed(begin))
	return nil
}

func (p *progress) printHeartbeats(what string, begin time.Time, stop <-chan struct{}) {
	next := time.NewTimer(announceDelay)
	defer next.Stop()
	for {
		select {
		case <-stop:
			return
		case <-next.C:
			p.printLine("%s ... %s", what, formatElapsed(begin))
			next.Reset(heartbeatInterval)
		}
	}
}

func (p *progress) printLine(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A failed write must not abort the step.
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

func formatElapsed(begin time.Time) string {
	elapsed := time.Since(begin)
	if elapsed < 10*time.Second {
		return fmt.Sprintf("%.1f s", elapsed.Seconds())
	}
	return fmt.Sprintf("%.0f s", elapsed.Seconds())
}
