package cluster

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// The cost of a build in bytes of source. The compiler needs 5 to 6 CPU seconds for a megabyte, from
// a small package such as k8s.io/api/batch/v1 to one of 2.8 MB such as k8s.io/api/core/v1. It also
// needs a tenth of a second for each package. The linker reads everything.
const (
	packageCost = 20_000
	linkCost    = 0.05
	// recordedSpeed is the cost per second on an idle machine with two cores, which builds Kubernetes
	// (170 MB) in 5 minutes. It counts until the speed of this machine is known.
	recordedSpeed = 550_000
	// recordedSpeedWeight is the part of a build that determines the speed of this machine.
	recordedSpeedWeight = 0.03
)

// buildEstimate estimates the remaining time of a Go build from the amount of source and the
// observed speed. Its methods are safe for concurrent use.
type buildEstimate struct {
	mu       sync.Mutex
	begin    time.Time
	compiled map[string]bool
	// costs are the costs of the packages that the build must compile, or nil before start.
	costs       map[string]float64
	total, done float64
}

func newBuildEstimate() *buildEstimate {
	return &buildEstimate{begin: time.Now(), compiled: map[string]bool{}}
}

// start begins the estimate. packages are all packages of the program.
func (e *buildEstimate) start(packages []goPackage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.costs = map[string]float64{}
	for _, p := range packages {
		e.total += linkCost * float64(p.size)
		if p.isCompiled && !e.compiled[p.path] {
			continue
		}
		e.costs[p.path] = packageCost + float64(p.size)
		e.total += e.costs[p.path]
		if e.compiled[p.path] {
			e.done += e.costs[p.path]
		}
	}
}

// addCompiled records that the compiler started with a package.
func (e *buildEstimate) addCompiled(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.compiled[path] {
		e.done += e.costs[path]
	}
	e.compiled[path] = true
}

// describe returns the number of compiled packages and the remaining time. It returns "" before
// start.
func (e *buildEstimate) describe() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.costs == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d packages, %s",
		min(len(e.compiled), len(e.costs)), len(e.costs), formatRemaining(e.remaining(time.Since(e.begin))))
}

// remaining returns the remaining time of a build that has run for the given time.
func (e *buildEstimate) remaining(elapsed time.Duration) time.Duration {
	assumed := recordedSpeedWeight * e.total
	speed := (assumed + e.done) / (assumed/recordedSpeed + elapsed.Seconds())
	return time.Duration((e.total - e.done) / speed * float64(time.Second))
}

// formatRemaining rounds a remaining time up to minutes.
func formatRemaining(d time.Duration) string {
	if d <= time.Minute {
		return "less than a minute left"
	}
	return fmt.Sprintf("about %.0f minutes left", math.Ceil(d.Minutes()))
}
