package simulation

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestExplore(t *testing.T) {
	ctrllog.SetLogger(logr.Discard())
	n, _ := strconv.Atoi(os.Getenv("RUNS"))
	start, _ := strconv.Atoi(os.Getenv("START"))
	show, _ := strconv.Atoi(os.Getenv("SHOW"))
	events, begin := 0, time.Now()
	counts := map[property]int{}
	for seed := range n {
		r := Run(NewScenario(uint64(start + seed)))
		events += r.Events
		if len(r.Violations) == 0 {
			continue
		}
		for _, v := range r.Violations {
			counts[v.Property]++
		}
		if show > 0 {
			show--
			t.Logf("##### %s\n%s", r.Violations[0].Property, Shrink(r).Report())
		} else {
			t.Logf("seed %d: %v", r.Scenario.Seed, r.Violations[0])
		}
	}
	t.Logf("%d runs, %d events, %.0f events/s: %v", n, events, float64(events)/time.Since(begin).Seconds(), counts)
}
