package simulation

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestExplore(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("RUNS"))
	if n == 0 {
		n = 200
	}
	start, _ := strconv.Atoi(os.Getenv("START"))
	events, begin := 0, time.Now()
	counts := map[property]int{}
	example := map[property]Result{}
	for seed := range n {
		r := Run(NewScenario(uint64(start + seed)))
		events += r.Events
		for _, v := range r.Violations {
			counts[v.Property]++
			if old, ok := example[v.Property]; !ok || len(r.Scenario.Incidents) < len(old.Scenario.Incidents) {
				r.Violations = []violation{v}
				example[v.Property] = r
			}
		}
	}
	t.Logf("%d runs, %d events, %.0f events/s: %v", n, events, float64(events)/time.Since(begin).Seconds(), counts)
	for p, r := range example {
		small := Shrink(r)
		t.Logf("##### %s\n%s", p, small.Report())
	}
}
