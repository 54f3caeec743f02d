package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/ranges"
)

// PrintGangs prints one line for each gang. If showNamespace is true, the first column is the
// namespace.
func PrintGangs(out io.Writer, o PrintOptions, gangs []Gang, showNamespace bool) {
	header := []string{"GANG", "FRAMEWORK", "PHASE", "RESTARTS", "RANKS", "AGE", "MESSAGE"}
	if showNamespace {
		header = append([]string{"NAMESPACE"}, header...)
	}
	rows := [][]string{header}
	for _, g := range gangs {
		row := []string{
			g.Name, g.Framework, cmp.Or(string(g.Phase), "-"), g.formatRestarts(),
			formatReadyCount(g.Ready, g.Succeeded, g.Size), o.formatAge(g.CreationTimestamp), joinLines(g.formatMessage()),
		}
		if showNamespace {
			row = append([]string{g.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	o.printTable(out, rows)
}

// FormatLine returns the name and the state of a gang as one line. It contains no age, so it changes only with the
// gang.
func (g Gang) FormatLine(showNamespace bool) string {
	name := g.Name
	if showNamespace {
		name = g.Namespace + "/" + g.Name
	}
	return joinLines(fmt.Sprintf("%s  %s  ranks %s  restarts %s  %s", name, cmp.Or(string(g.Phase), "-"),
		formatReadyCount(g.Ready, g.Succeeded, g.Size), g.formatRestarts(), g.formatMessage()))
}

// formatRestarts returns the number of restarts and their maximum, such as 1/3.
func (g Gang) formatRestarts() string {
	if g.MaxRestarts == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", g.Restarts, *g.MaxRestarts)
}

// formatMessage returns the message. A gang stays Running while a rank is not ready, so the number of ready ranks
// follows if it is too low.
func (g Gang) formatMessage() string {
	if g.Reason == gang.ReasonGangRunning && g.Ready+g.Succeeded < g.minReady {
		return fmt.Sprintf("%s, now %d", g.Message, g.Ready)
	}
	return g.Message
}

// formatDisruptions returns the number of disruptions, and their maximum if they are limited, such as 5 or 5/10.
func (g Gang) formatDisruptions() string {
	if g.MaxDisruptions == nil {
		return strconv.Itoa(int(g.Disruptions))
	}
	return fmt.Sprintf("%d/%d", g.Disruptions, *g.MaxDisruptions)
}

// formatReadyCount returns the number of ready ranks and the size, such as 2/4. Ranks that succeeded
// are no longer ready, so it adds their number: 1/4, 3 succeeded.
func formatReadyCount(ready, succeeded, size int32) string {
	text := fmt.Sprintf("%d/%d", ready, size)
	if succeeded > 0 {
		text += fmt.Sprintf(", %d succeeded", succeeded)
	}
	return text
}

// PrintGang prints the phase of one gang, its members, its ranks, its first failure and its Events.
func PrintGang(out io.Writer, o PrintOptions, g Gang) {
	printHeader(out, o, g)
	if o.Live {
		printAttempts(out, o, g)
		printFirstFailure(out, o, g)
	}
	printMembers(out, o, g)
	if !o.Live {
		printRanks(out, o, g)
	}
	printNotReady(out, o, g.Ranks)
	if !o.Live {
		printFirstFailure(out, o, g)
	}
	printEvents(out, o, g.Events)
	if o.Live {
		printLogTail(out, o, g.LogTail)
		printRanks(out, o, g)
	}
	for _, warning := range g.Warnings {
		fmt.Fprintf(out, "\nwarning: %s\n", joinLines(warning))
	}
}

// phaseColors match the colors of the rank states in the grid.
var phaseColors = map[lifecycle.Phase]string{
	lifecycle.Pending:    colorYellow,
	lifecycle.Starting:   colorYellow,
	lifecycle.Restarting: colorYellow,
	lifecycle.Running:    colorGreen,
	lifecycle.Succeeded:  colorCyan,
	lifecycle.Failed:     colorRed,
}

func printHeader(out io.Writer, o PrintOptions, g Gang) {
	fmt.Fprintf(out, "%s/%s  %s  %s", g.Namespace, g.Name, g.Framework,
		o.applyColor(phaseColors[g.Phase], cmp.Or(string(g.Phase), "unknown")))
	if g.LastTransitionTime != nil {
		fmt.Fprintf(out, " since %s (%s)", o.formatTime(*g.LastTransitionTime), o.formatAge(*g.LastTransitionTime))
	}
	if g.MaxRestarts != nil {
		fmt.Fprintf(out, "  restarts %s", g.formatRestarts())
	}
	if g.Disruptions > 0 {
		fmt.Fprintf(out, "  disruptions %s", g.formatDisruptions())
	}
	fmt.Fprintln(out)
	if g.Message != "" {
		fmt.Fprintln(out, o.truncateLine(joinLines(g.formatMessage())))
	}
	if g.Progress != nil {
		fmt.Fprintln(out, o.truncateLine(o.formatProgress(*g.Progress)))
	}
	if spent := g.formatSeconds(o.Now); spent != "" {
		fmt.Fprintln(out, o.truncateLine(spent))
	}
	if nodes := o.formatAvoidedNodes(g.FailedNodes); nodes != "" {
		fmt.Fprintln(out, o.truncateLine(nodes))
	}
	if next := g.NextRestartTime; next != nil && next.After(o.Now) {
		fmt.Fprintf(out, "Next restart at %s, in %s\n", o.formatTime(*next), duration.HumanDuration(next.Sub(o.Now)))
	}
}

func printMembers(out io.Writer, o PrintOptions, g Gang) {
	rows := [][]string{{"MEMBER", "ROLE", "RANKS", "READY"}}
	for _, m := range g.Members {
		name := strings.TrimSpace(string(m.Kind) + " " + m.Name)
		ready := formatReadyCount(m.Ready, m.Succeeded, m.Size)
		switch {
		case m.Missing:
			ready = "missing"
		case m.Completed:
			ready += ", deleted"
		case m.Suspended:
			ready += ", suspended"
		}
		rows = append(rows, []string{name, cmp.Or(m.Role, "-"), m.formatRanks(), ready})
	}
	fmt.Fprintln(out)
	o.printTable(out, rows)
}

// formatRanks returns the ranks of the member as a range.
func (m Member) formatRanks() string {
	if m.Size == 0 {
		return "-"
	}
	return ranges.Set{{m.Offset, m.Offset + m.Size - 1}}.String()
}

// printRanks prints the legend and the grid. If the gang has several members, each of them has a
// grid with its role as the heading.
func printRanks(out io.Writer, o PrintOptions, g Gang) {
	if len(g.Ranks) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", formatLegend(o, g.Ranks))
	for own := range splitRuns(g.Ranks, func(r Rank) string { return r.Member }) {
		if len(g.Members) > 1 {
			fmt.Fprintf(out, "  %s\n", cmp.Or(own[0].Role, own[0].Member))
		}
		printGrid(out, o, own)
	}
}

// maxFailureLines is the maximum number of lines of a failure's message. The last lines are printed.
const maxFailureLines = 8

func printFirstFailure(out io.Writer, o PrintOptions, g Gang) {
	if g.FirstFailure == nil {
		return
	}
	fmt.Fprintf(out, "\nFirst failure at %s\n", o.formatTime(g.FirstFailure.Time))
	summary := *g.FirstFailure
	summary.Message = ""
	fmt.Fprintln(out, o.truncateLine("  "+joinLines(summary.String())))
	lines := splitLines(g.FirstFailure.Message)
	for _, line := range lines[max(0, len(lines)-maxFailureLines):] {
		fmt.Fprintln(out, o.truncateLine("    "+line))
	}
}

func printEvents(out io.Writer, o PrintOptions, events []Event) {
	if len(events) == 0 {
		return
	}
	rows := [][]string{{"AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"}}
	for _, e := range events {
		age := o.formatAge(e.Time)
		if e.Count > 1 {
			age += fmt.Sprintf(" (x%d)", e.Count)
		}
		rows = append(rows, []string{age, e.Type, e.Reason, e.Object, joinLines(e.Message)})
	}
	fmt.Fprintln(out)
	o.printTable(out, rows)
}
