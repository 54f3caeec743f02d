package simulation

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // objects are small and live briefly, and collecting them took a third of the time
	os.Exit(m.Run())
}

// TestSimulation runs the first random scenarios. make simulate runs others.
func TestSimulation(t *testing.T) {
	const groups, scenarios = 6, 100
	var isFound atomic.Bool
	for group := range uint64(groups) {
		t.Run(fmt.Sprintf("seeds from %d", group*scenarios), func(t *testing.T) {
			t.Parallel()
			events, violating := 0, 0
			for seed := group * scenarios; seed < (group+1)*scenarios && !isFound.Load(); seed++ {
				r := Run(NewScenario(seed))
				events += r.Events
				if len(r.Violations) == 0 {
					continue
				}
				t.Errorf("seed %d: %s", seed, r.Violations[0].Property)
				if testing.Short() { // a mutant needs no second scenario
					isFound.Store(true)
					return
				}
				if violating++; violating == 1 { // shrinking needs hundreds of runs
					t.Logf("%v\n%s", r.Violations[0], Shrink(r).Report())
				}
			}
			t.Logf("%d scenarios, %d events", scenarios, events)
		})
	}
}

// TestRepeat checks that a seed determines a run.
func TestRepeat(t *testing.T) {
	for seed := range uint64(20) {
		first, second := Run(NewScenario(seed)), Run(NewScenario(seed))
		if a, b := first.Report(), second.Report(); a != b || first.Events != second.Events {
			t.Fatalf("seed %d: %d and %d events\n%s\n%s", seed, first.Events, second.Events, a, b)
		}
	}
}
