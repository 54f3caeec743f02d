package inspect

import (
	"fmt"
	"strings"
	"time"
)

// activity is what a gang did for a number of seconds.
type activity struct {
	Text    string
	Seconds int64
}

// listActivities returns what the gang did until now, the time in which it ran first. The times of all attempts are
// part of it.
func (g Gang) listActivities(now time.Time) []activity {
	state := g.state
	state.Phase = g.Phase
	s := state.SecondsAt(now)
	suspended := "suspended"
	if g.isQueued {
		suspended = "queued"
	}
	return []activity{
		{"ran", s.Ran},
		{"starting", s.Starting},
		{suspended, s.Suspended},
		{"restarting", s.Restarting},
		{"in attempts that failed", s.RanBeforeFailure},
		{"in attempts that were disrupted", s.RanBeforeDisruption},
		{"in attempts that were suspended", s.RanBeforeSuspension},
	}
}

// formatSeconds returns how long the gang did what, in one unit, such as "Of 41 h: 37 h ran, 1.2 h restarting". It is
// empty for a gang that neither was suspended nor restarted.
func (g Gang) formatSeconds(now time.Time) string {
	activities, total := g.listActivities(now), int64(0)
	for _, a := range activities {
		total += a.Seconds
	}
	if total == activities[0].Seconds+activities[1].Seconds {
		return ""
	}
	unit, name := 1.0, "s"
	switch {
	case total >= int64(2*time.Hour/time.Second):
		unit, name = time.Hour.Seconds(), "h"
	case total >= int64(2*time.Minute/time.Second):
		unit, name = time.Minute.Seconds(), "min"
	}
	var parts []string
	for _, a := range activities {
		if value := formatNumber(float64(a.Seconds) / unit); value != "0" {
			parts = append(parts, fmt.Sprintf("%s %s %s", value, name, a.Text))
		}
	}
	return fmt.Sprintf("Of %s %s: %s", formatNumber(float64(total)/unit), name, strings.Join(parts, ", "))
}

// formatNumber returns a number with one decimal place if it is less than 10, and without a decimal place if that
// is 0.
func formatNumber(n float64) string {
	if n >= 10 {
		return fmt.Sprintf("%.0f", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}
