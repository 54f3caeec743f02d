// Command simulate runs random scenarios through the real reconciler and the real webhook. See package simulation.
package main

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/test/simulation"
)

func main() {
	duration := flag.Duration("time", 10*time.Minute, "how long to run scenarios")
	seed := flag.Uint64("seed", 0, "run the scenario of a seed, and print it; 0 for random scenarios")
	start := flag.Uint64("start", uint64(time.Now().Unix())<<20, "first of the random seeds")
	first := flag.Bool("first", false, "stop at the first violation, and print only its seed")
	full := flag.Bool("full", false, "do not shrink the scenario of a seed")
	workers := flag.Int("workers", 2, "number of scenarios that run at the same time")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if *seed != 0 {
		if r := simulation.Run(simulation.NewScenario(*seed)); report(r, !*full) {
			os.Exit(1)
		}
		return
	}
	if explore(*start, *workers, time.Now().Add(*duration), *first) > 0 {
		os.Exit(1)
	}
}

// explore runs random scenarios until a time or, if first is true, until one has a violation. It returns the number of
// scenarios with a violation.
func explore(start uint64, workers int, end time.Time, first bool) int {
	var mu sync.Mutex
	var group sync.WaitGroup
	scenarios, events, violations := 0, 0, 0
	next, begin, lastLine := start, time.Now(), time.Now()
	for range workers {
		group.Go(func() {
			for time.Now().Before(end) {
				mu.Lock()
				seed, isDone := next, first && violations > 0
				next++
				mu.Unlock()
				if isDone {
					return
				}
				r := simulation.Run(simulation.NewScenario(seed))
				mu.Lock()
				scenarios, events = scenarios+1, events+r.Events
				if len(r.Violations) > 0 {
					violations++
					if first {
						fmt.Printf("seed %d: %s\n", seed, r.Violations[0].Property)
					} else {
						report(r, violations <= 10)
					}
				}
				if time.Since(lastLine) > 10*time.Second {
					lastLine = time.Now()
					fmt.Printf("%d scenarios, %d events, %d violations, %.0f events per second\n",
						scenarios, events, violations, float64(events)/time.Since(begin).Seconds())
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Printf("%d scenarios from seed %d, %d events, %d violations\n", scenarios, start, events, violations)
	return violations
}

// report prints a result. It reports whether the result has a violation.
func report(r simulation.Result, shrink bool) bool {
	seed := r.Scenario.Seed
	if shrink && len(r.Violations) > 0 {
		r = simulation.Shrink(r)
	}
	fmt.Printf("seed %d: %v\n%s\n", seed, r.Violations, r.Report())
	return len(r.Violations) > 0
}
