package roster

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"rollcall.training/gang"
)

// DrawList draws a line for each gang, with the namespace where it asks for that.
func DrawList(out io.Writer, s Style, gangs []Gang, namespaces bool) {
	head := []string{"GANG", "FRAMEWORK", "PHASE", "ATTEMPT", "RANKS", "AGE", "MESSAGE"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	rows := [][]string{head}
	for _, g := range gangs {
		row := []string{g.Name, g.Framework, cmp.Or(string(g.Phase), "-"), g.attempt(), g.count(), s.age(g.Created), oneLine(g.Message)}
		if namespaces {
			row = append([]string{g.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	s.table(out, rows)
}

// attempt is the number of restarts so far, of at most how many.
func (g Gang) attempt() string {
	if g.MaxRestarts == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", g.Attempt, *g.MaxRestarts)
}

// count is how many ranks are ready, and how many are done, which are not ready any
// more.
func (g Gang) count() string { return count(g.Ready, g.Done, g.Size) }

func count(ready, done, size int32) string {
	text := fmt.Sprintf("%d/%d", ready, size)
	if done > 0 {
		text += fmt.Sprintf(" +%d done", done)
	}
	return text
}

// Draw draws one gang: what it is, its ranks, its first cause and its Events.
func Draw(out io.Writer, s Style, g Gang) {
	drawHead(out, s, g)
	drawMembers(out, s, g)
	drawRanks(out, s, g)
	drawLacking(out, s, g.Ranks)
	drawCause(out, s, g)
	drawEvents(out, s, g.Events)
	for _, n := range g.Notes {
		fmt.Fprintf(out, "\nnote: %s\n", oneLine(n))
	}
}

// phaseColors are those of the grid's states.
var phaseColors = map[gang.Phase]string{
	gang.Pending: yellow, gang.Starting: yellow, gang.Restarting: yellow,
	gang.Running: green, gang.Succeeded: cyan, gang.Failed: red,
}

func drawHead(out io.Writer, s Style, g Gang) {
	fmt.Fprintf(out, "%s/%s  %s  %s", g.Namespace, g.Name, g.Framework,
		s.paint(phaseColors[g.Phase], cmp.Or(string(g.Phase), "no phase yet")))
	if g.Since != nil {
		fmt.Fprintf(out, " since %s (%s)", s.clock(*g.Since), s.age(*g.Since))
	}
	if g.MaxRestarts != nil {
		fmt.Fprintf(out, "  attempt %d of %d", g.Attempt, *g.MaxRestarts)
	}
	fmt.Fprintln(out)
	if g.Message != "" {
		fmt.Fprintln(out, s.fit(oneLine(g.Message)))
	}
	if g.NotBefore != nil && g.NotBefore.After(s.Now) {
		fmt.Fprintf(out, "Begins anew at %s, in %s\n", s.clock(*g.NotBefore), duration.HumanDuration(g.NotBefore.Sub(s.Now)))
	}
}

func drawMembers(out io.Writer, s Style, g Gang) {
	rows := [][]string{{"MEMBER", "ROLE", "RANKS", "READY"}}
	for _, m := range g.Members {
		name, ready := strings.TrimSpace(string(m.Kind)+" "+m.Name), count(m.Ready, m.Done, m.Size)
		switch {
		case m.Missing:
			ready = "not there"
		case m.Suspended:
			ready += " suspended"
		}
		rows = append(rows, []string{name, cmp.Or(m.Role, "-"), m.ranks(), ready})
	}
	fmt.Fprintln(out)
	s.table(out, rows)
}

func (m Member) ranks() string {
	if m.Size == 0 {
		return "-"
	}
	return Ranges{{m.Offset, m.Offset + m.Size - 1}}.String()
}

// drawRanks draws the grid, role by role where there are several.
func drawRanks(out io.Writer, s Style, g Gang) {
	if len(g.Ranks) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", legend(s, g.Ranks))
	for i := 0; i < len(g.Ranks); {
		j := i
		for j < len(g.Ranks) && g.Ranks[j].Member == g.Ranks[i].Member {
			j++
		}
		if len(g.Members) > 1 {
			fmt.Fprintf(out, "  %s\n", cmp.Or(g.Ranks[i].Role, g.Ranks[i].Member))
		}
		drawGrid(out, s, g.Ranks[i:j])
		i = j
	}
}

// maxCause is how many lines of a program's last words are drawn, the last ones.
const maxCause = 8

func drawCause(out io.Writer, s Style, g Gang) {
	if g.Cause == nil {
		return
	}
	brief := *g.Cause
	brief.Message = ""
	fmt.Fprintf(out, "\nFIRST CAUSE, at %s\n%s\n", s.clock(g.Cause.At), s.fit("  "+oneLine(brief.String())))
	words := lines(g.Cause.Message)
	for _, line := range words[max(0, len(words)-maxCause):] {
		fmt.Fprintln(out, s.fit("    "+line))
	}
}

func drawEvents(out io.Writer, s Style, events []Event) {
	if len(events) == 0 {
		return
	}
	rows := [][]string{{"AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"}}
	for _, e := range events {
		age := s.age(e.At)
		if e.Count > 1 {
			age += fmt.Sprintf(" (x%d)", e.Count)
		}
		rows = append(rows, []string{age, e.Type, e.Reason, e.Object, oneLine(e.Message)})
	}
	fmt.Fprintln(out)
	s.table(out, rows)
}
