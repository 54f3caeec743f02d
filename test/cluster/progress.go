package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// quiet is how long a step may take before it is announced: what takes less is only reported when done.
	quiet = 2 * time.Second
	// heartbeat is the pause between two signs of life of a long step. Automation takes a silent job for hung.
	heartbeat = 15 * time.Second
)

// progress tells a person what is being done, line by line, so that it reads the same on a terminal and in a log.
type progress struct {
	mu sync.Mutex
	w  io.Writer
}

// do runs one step and reports it.
func (p *progress) do(what string, step func() error) error {
	begin := time.Now()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p.signsOfLife(what, begin, stop)
	}()
	err := step()
	close(stop)
	<-stopped // A line after the end of a test would be a panic.
	if err != nil {
		p.line("%s: failed after %s", what, seconds(begin))
		return err
	}
	p.line("%s: %s", what, seconds(begin))
	return nil
}

func (p *progress) signsOfLife(what string, begin time.Time, stop <-chan struct{}) {
	next := time.NewTimer(quiet)
	defer next.Stop()
	for {
		select {
		case <-stop:
			return
		case <-next.C:
			p.line("%s ... %s", what, seconds(begin))
			next.Reset(heartbeat)
		}
	}
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Nobody to tell is no reason to stop.
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

func seconds(begin time.Time) string {
	elapsed := time.Since(begin)
	if elapsed < 10*time.Second {
		return fmt.Sprintf("%.1f s", elapsed.Seconds())
	}
	return fmt.Sprintf("%.0f s", elapsed.Seconds())
}
