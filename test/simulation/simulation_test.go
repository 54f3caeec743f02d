package simulation

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestSimulation runs the first random scenarios. make simulate runs others.
func TestSimulation(t *testing.T) {
	const scenarios = 600
	events := 0
	for seed := range uint64(scenarios) {
		r := Run(NewScenario(seed))
		events += r.Events
		if len(r.Violations) > 0 {
			t.Errorf("%v\n%s", r.Violations[0], Shrink(r).Report())
		}
	}
	t.Logf("%d scenarios, %d events", scenarios, events)
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
