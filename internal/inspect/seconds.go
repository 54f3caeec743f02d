package inspect

import (
	"fmt"
	"strings"
	"time"
)

// formatSeconds returns how long the gang did what, in one unit, such as "Of 41 h: 37 h ran, 1.2 h restarting". The
// times of all attempts are part of it. It is empty for a gang that neither was suspended nor restarted.
func (g Gang) formatSeconds(now time.Time) string {
	state := g.state
	state.Phase = g.Phase
	s := state.SecondsAt(now)
	if s.Total() == s.Starting+s.Ran {
		return ""
	}
	unit, name := 1.0, "s"
	switch total := s.Total(); {
	case total >= int64(2*time.Hour/time.Second):
		unit, name = time.Hour.Seconds(), "h"
	case total >= int64(2*time.Minute/time.Second):
		unit, name = time.Minute.Seconds(), "min"
	}
	suspended := "suspended"
	if g.isQueued {
		suspended = "queued"
	}
	var parts []string
	for _, part := range []struct {
		seconds int64
		text    string
	}{
		{s.Ran, "ran"},
		{s.Starting, "starting"},
		{s.Suspended, suspended},
		{s.Restarting, "restarting"},
		{s.RanBeforeFailure, "in attempts that failed"},
		{s.RanBeforeDisruption, "in attempts that were disrupted"},
		{s.RanBeforeSuspension, "in attempts that were suspended"},
	} {
		if value := formatNumber(float64(part.seconds) / unit); value != "0" {
			parts = append(parts, fmt.Sprintf("%s %s %s", value, name, part.text))
		}
	}
	return fmt.Sprintf("Of %s %s: %s", formatNumber(float64(s.Total())/unit), name, strings.Join(parts, ", "))
}

// formatNumber returns a number with one decimal place if it is less than 10, and without a decimal place if that
// is 0.
func formatNumber(n float64) string {
	if n >= 10 {
		return fmt.Sprintf("%.0f", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}
