package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// Activities of a [Period] that [lifecycle.Seconds] does not have: the API no longer contains when an attempt started
// to run.
const (
	activityStarting   = "starting"
	activityRan        = "ran"
	activityRestarting = "restarting"
	activitySuspended  = "suspended"
	activityUnknown    = "started or ran"
)

// Period is a time in which a gang, or the pod of a rank, did one thing.
type Period struct {
	Activity   string
	Start, End time.Time
}

// Attempt is a period between two restarts. The first starts with the creation of the gang.
type Attempt struct {
	// HiddenRestarts is the number of restarts within the period whose time the API no longer contains.
	HiddenRestarts int
	// Periods are what is known, in order. They have no gaps.
	Periods []Period
	// End is why the attempt ended. It is empty for the last attempt.
	End string
}

// Start returns when the attempt started, and the restart before it was decided.
func (a Attempt) Start() time.Time { return a.Periods[0].Start }

// Finish returns when the attempt ended, or the time up to which it is known.
func (a Attempt) Finish() time.Time { return a.Periods[len(a.Periods)-1].End }

// restart is a restart whose time is known.
type restart struct {
	time  time.Time
	cause string
}

// restartTolerance is the maximum difference between the time of a restart in the status and in its Event.
const restartTolerance = 2 * time.Second

// listRestarts returns the restarts of the Events and of the status. The Events of a namespace expire, after an hour by
// default, and the status contains only the last restart.
func (g Gang) listRestarts() []restart {
	var out []restart
	add := func(t time.Time, cause string) {
		isKnown := slices.ContainsFunc(out, func(r restart) bool { return r.time.Sub(t).Abs() <= restartTolerance })
		if !isKnown && t.After(g.CreationTimestamp) {
			out = append(out, restart{t, cause})
		}
	}
	for _, e := range g.Events {
		if e.Reason == string(gang.ReasonGangRestarting) {
			add(e.Time, e.Message)
		}
	}
	cause := ""
	if g.FirstFailure != nil && g.Phase != lifecycle.Failed {
		cause = g.FirstFailure.String()
	}
	if last := g.state.LastRestartTime; !last.IsZero() {
		add(last, cause)
	}
	slices.SortFunc(out, func(a, b restart) int { return a.time.Compare(b.time) })
	return out
}

// listAttempts returns the attempts up to now, as far as the status, the Events and the pods contain them. It returns
// nil if the gang has no creation time.
func (g Gang) listAttempts(now time.Time) []Attempt {
	if g.CreationTimestamp.IsZero() {
		return nil
	}
	var out []Attempt
	start, restarts := g.CreationTimestamp, g.listRestarts()
	for _, r := range restarts {
		out = append(out, Attempt{Periods: []Period{{activityUnknown, start, r.time}}, End: r.cause})
		start = r.time
	}
	out = append(out, Attempt{Periods: g.lastPeriods(start, len(restarts) > 0, now)})
	out[0].HiddenRestarts = max(0, int(g.Restarts+g.Disruptions)-len(restarts))
	return out
}

// lastPeriods returns the periods of the last attempt, which starts with a restart or with the creation of the gang.
func (g Gang) lastPeriods(start time.Time, isRestart bool, now time.Time) []Period {
	changed, waited := now, activitySuspended
	if g.LastTransitionTime != nil {
		changed = *g.LastTransitionTime
	}
	if isRestart {
		waited = activityRestarting
	}
	periods := []Period{{Activity: waited, End: g.state.AttemptStartTime}}
	switch started := g.lastProgramStart(); {
	case g.Phase == lifecycle.Restarting:
		periods = []Period{{Activity: activityRestarting, End: now}}
	case g.Phase == lifecycle.Running:
		periods = append(periods, Period{Activity: activityStarting, End: changed}, Period{Activity: activityRan, End: now})
	case g.Phase == lifecycle.Suspended:
		periods = append(periods,
			Period{Activity: activityUnknown, End: changed}, Period{Activity: activitySuspended, End: now})
	case !g.Phase.Terminal():
		periods = append(periods, Period{Activity: activityStarting, End: now})
	case started.IsZero():
		periods = append(periods, Period{Activity: activityUnknown, End: changed})
	default:
		periods = append(periods,
			Period{Activity: activityStarting, End: started}, Period{Activity: activityRan, End: changed})
	}
	return joinPeriods(start, now, periods)
}

// joinPeriods sets the starts of periods, of which each starts when the one before ends. It omits those without length,
// unless all are.
func joinPeriods(start, now time.Time, periods []Period) []Period {
	var out []Period
	for i, p := range periods {
		if p.End.After(now) {
			p.End = now
		}
		if p.End.After(start) || i == len(periods)-1 && len(out) == 0 {
			p.Start, p.End = start, later(start, p.End)
			out, start = append(out, p), p.End
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// activitySymbols are the characters of the time line. They differ without colors too.
var activitySymbols = []struct{ activity, cell, color string }{
	{activityStarting, "-", colorYellow},
	{activityRan, "=", colorGreen},
	{activityUnknown, ":", colorFaint},
	{activityRestarting, "x", colorRed},
	{activitySuspended, ".", colorFaint},
}

// printAttempts prints the attempts as a line of which each character is a part of the time.
func printAttempts(out io.Writer, o PrintOptions, g Gang) {
	attempts := g.listAttempts(o.Now)
	if len(attempts) == 0 {
		return
	}
	const indent, maxWidth = 2, 100
	width := maxWidth
	if o.Width > 0 {
		width = min(max(o.Width-indent, 1), maxWidth)
	}
	cells := layOutAttempts(attempts, width)
	line, legend := "", ""
	for run := range splitRuns(cells, func(activity string) string { return activity }) {
		for _, s := range activitySymbols {
			if s.activity == run[0] {
				line += o.applyColor(s.color, strings.Repeat(s.cell, len(run)))
			}
		}
	}
	for _, s := range activitySymbols {
		if slices.Contains(cells, s.activity) {
			legend += "   " + o.applyColor(s.color, s.cell) + " " + s.activity
		}
	}
	if hidden := attempts[0].HiddenRestarts; hidden > 0 {
		legend += fmt.Sprintf("   and %s at an unknown time", gang.FormatCount(hidden, "earlier restart"))
	}
	fmt.Fprintf(out, "\nAttempts since %s%s\n%s%s\n", o.formatTime(attempts[0].Start()), legend,
		strings.Repeat(" ", indent), line)
}

// layOutAttempts returns the activity of each cell of a line. Each restart has at least one cell.
func layOutAttempts(attempts []Attempt, width int) []string {
	start := attempts[0].Start()
	total := max(attempts[len(attempts)-1].Finish().Sub(start), time.Second).Seconds()
	cells := make([]string, width)
	for _, a := range attempts {
		for _, p := range a.Periods {
			column := func(t time.Time) int { return min(int(float64(width)*t.Sub(start).Seconds()/total), width-1) }
			for i := column(p.Start); i <= column(p.End); i++ {
				if p.Activity == activityRestarting || cells[i] != activityRestarting {
					cells[i] = p.Activity
				}
			}
		}
	}
	return cells
}

// lastProgramStart returns when the last training container of the pods started; zero if a rank has none.
func (g Gang) lastProgramStart() time.Time {
	var last time.Time
	for _, rank := range g.Ranks {
		started, _ := g.programTimes(rank)
		if started.IsZero() {
			return time.Time{}
		}
		last = later(last, started)
	}
	return last
}

// programTimes returns when the last training container of a rank started, and when the last one ended. The times are
// zero if one has not.
func (g Gang) programTimes(rank Rank) (started, ended time.Time) {
	if rank.Object == nil {
		return started, ended
	}
	running := false
	for _, status := range rank.Object.Status.ContainerStatuses {
		if !slices.Contains(g.TrainingContainers(rank), status.Name) {
			continue
		}
		switch state := status.State; {
		case state.Running != nil:
			started, running = later(started, state.Running.StartedAt.Time), true
		case state.Terminated != nil:
			started = later(started, state.Terminated.StartedAt.Time)
			ended = later(ended, state.Terminated.FinishedAt.Time)
		}
	}
	if running {
		ended = time.Time{}
	}
	return started, ended
}

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
