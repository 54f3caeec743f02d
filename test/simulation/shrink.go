package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shrink returns a smaller scenario that violates the same property: with fewer incidents, without clocks that
// differ, without faults and with fewer late streams. It runs at most a few hundred scenarios.
func Shrink(found Result) Result {
	property := found.Violations[0].Property
	best := found
	try := func(smaller Scenario) bool {
		r := Run(smaller)
		if slices.ContainsFunc(r.Violations, func(v violation) bool { return v.Property == property }) {
			best = r
			return true
		}
		return false
	}
	for changed := true; changed; {
		changed = false
		for i := len(best.Scenario.Incidents) - 1; i >= 0; i-- {
			smaller := best.Scenario
			smaller.Incidents = slices.Delete(slices.Clone(smaller.Incidents), i, i+1)
			changed = try(smaller) || changed
			i = min(i, len(best.Scenario.Incidents))
		}
		changed = shrinkSettings(&best, try) || changed
	}
	return best
}

// shrinkSettings tries simpler settings, and reports whether one of them still violates the property.
func shrinkSettings(best *Result, try func(Scenario) bool) bool {
	changed := false
	simplify := func(differs bool, change func(*Scenario)) {
		if !differs {
			return
		}
		smaller := best.Scenario
		change(&smaller)
		changed = try(smaller) || changed
	}
	for _, name := range []string{"*", "faults"} {
		isCalm := slices.Contains(best.Scenario.Calm, name)
		simplify(!isCalm, func(s *Scenario) { s.Calm = append(slices.Clone(s.Calm), name) })
	}
	if !slices.Contains(best.Scenario.Calm, "*") {
		for _, name := range best.noisy {
			isCalm := slices.Contains(best.Scenario.Calm, name)
			simplify(!isCalm, func(s *Scenario) { s.Calm = append(slices.Clone(s.Calm), name) })
		}
	}
	simplify(best.Scenario.ManagerSkew != 0, func(s *Scenario) { s.ManagerSkew = 0 })
	simplify(best.Scenario.Ranks > 2, func(s *Scenario) { s.Ranks = 2 })
	simplify(best.Scenario.TTL > 0, func(s *Scenario) { s.TTL = 0 })
	simplify(best.Scenario.StartTimeout > 0, func(s *Scenario) { s.StartTimeout = 0 })
	simplify(best.Scenario.ScheduleTimeout > 0, func(s *Scenario) { s.ScheduleTimeout = 0 })
	simplify(best.Scenario.MaxDisruptions != "", func(s *Scenario) { s.MaxDisruptions = "" })
	simplify(best.Scenario.CleanPodPolicy != "", func(s *Scenario) { s.CleanPodPolicy = "" })
	simplify(best.Scenario.WithoutRules, func(s *Scenario) { s.WithoutRules = false })
	simplify(best.Scenario.Elastic != "", func(s *Scenario) { s.Elastic = "" })
	simplify(best.Scenario.NonRetriable != "", func(s *Scenario) { s.NonRetriable = "" })
	simplify(best.Scenario.ActiveDeadline > 0, func(s *Scenario) { s.ActiveDeadline = 0 })
	simplify(best.Scenario.SucceededCount > 0, func(s *Scenario) { s.SucceededCount = 0 })
	simplify(best.Scenario.AvoidsNodes, func(s *Scenario) { s.AvoidsNodes = false })
	simplify(best.Scenario.WaitsForLostNodes, func(s *Scenario) { s.WaitsForLostNodes = false })
	simplify(best.Scenario.IgnoresDisruptions, func(s *Scenario) { s.IgnoresDisruptions = false })
	simplify(best.Scenario.ReplacesOnDelete, func(s *Scenario) { s.ReplacesOnDelete = false })
	simplify(best.Scenario.Behavior.FailsWhenRunAgain, func(s *Scenario) { s.Behavior.FailsWhenRunAgain = false })
	simplify(best.Scenario.Behavior.AbortsAfterMaster, func(s *Scenario) { s.Behavior.AbortsAfterMaster = false })
	simplify(best.Scenario.Behavior.PeerTimeout > 0, func(s *Scenario) { s.Behavior.PeerTimeout = 0 })
	simplify(best.Scenario.Behavior.AbortsWithoutPeers, func(s *Scenario) { s.Behavior.AbortsWithoutPeers = false })
	anySkew := slices.ContainsFunc(best.Scenario.NodeSkews, func(d time.Duration) bool { return d != 0 })
	simplify(anySkew, func(s *Scenario) {
		s.NodeSkews = make([]time.Duration, len(s.NodeSkews))
	})
	return changed
}

// Report returns the scenario, what happened, and the violations, as a table.
func (r Result) Report() string {
	last := time.Duration(0)
	for _, v := range r.Violations {
		last = v.Time
	}
	return r.reportUntil(last)
}

// FullReport returns the scenario and everything that happened.
func (r Result) FullReport() string { return r.reportUntil(4 * quietPeriod) }

// reportUntil returns the scenario and what happened until a time.
func (r Result) reportUntil(last time.Duration) string {
	var out strings.Builder
	out.WriteString(r.Scenario.String())
	for _, e := range r.trace {
		if e.time.Sub(epoch) > last {
			break
		}
		fmt.Fprintf(&out, "%12s  %-26s %s\n", e.time.Sub(epoch), e.actor, e.text)
	}
	return out.String()
}
