package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall.training/test/installation"
)

// memoryUsage is the memory of a process.
type memoryUsage struct {
	// ResidentMiB is the resident memory. LiveHeapMiB is the heap that was live after the last
	// garbage collection. Both are in MiB.
	ResidentMiB, LiveHeapMiB float64
}

// format returns both values as the cell of a table.
func (u memoryUsage) format() string {
	return fmt.Sprintf("%.0f MiB, %.1f MiB", u.ResidentMiB, u.LiveHeapMiB)
}

// readMetrics reads the metrics of a process that have no labels.
func readMetrics(ctx context.Context, p *installation.Process) (map[string]float64, error) {
	var text bytes.Buffer
	if err := p.WriteMetrics(ctx, &text); err != nil {
		return nil, err
	}
	metrics := map[string]float64{}
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			metrics[name] = n
		}
	}
	return metrics, nil
}

// readMemory reads the memory of a process from its metrics.
func readMemory(ctx context.Context, p *installation.Process) (memoryUsage, error) {
	metrics, err := readMetrics(ctx, p)
	if err != nil {
		return memoryUsage{}, err
	}
	const mib = 1 << 20
	u := memoryUsage{
		ResidentMiB: metrics["process_resident_memory_bytes"] / mib,
		// The next collection is due at twice the size of the live heap (GOGC=100).
		LiveHeapMiB: metrics["go_memstats_next_gc_bytes"] / 2 / mib,
	}
	if u.ResidentMiB == 0 || u.LiveHeapMiB == 0 {
		return u, errors.New("the process does not export its memory metrics")
	}
	return u, nil
}

// watchMemory reads the memory of a process every second. The returned function stops it and returns the
// maxima, or the last error if no reading succeeded.
func watchMemory(p *installation.Process) func() (memoryUsage, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	var peak memoryUsage
	var last error
	go func() {
		defer close(stopped)
		for {
			u, err := readMemory(ctx, p)
			if ctx.Err() != nil {
				return
			}
			last = err
			peak.ResidentMiB = max(peak.ResidentMiB, u.ResidentMiB)
			peak.LiveHeapMiB = max(peak.LiveHeapMiB, u.LiveHeapMiB)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() (memoryUsage, error) {
		cancel()
		<-stopped
		if peak.ResidentMiB == 0 {
			return peak, fmt.Errorf("reading the memory: %w", last)
		}
		return peak, nil
	}
}
