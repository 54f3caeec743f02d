package inspect

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/vet"
)

// The limits of a page, so that its size does not depend on the number of ranks except for one character for each.
const (
	maxPageRanks    = 40
	maxPageNodes    = 100
	maxPageFindings = 100
	// MaxPageEvents is the number of Events that a page should have; see [Reader.MaxEvents].
	MaxPageEvents = 200
)

// Page is the input of a report about one gang.
type Page struct {
	Gang Gang
	// Now is when the gang was read.
	Now time.Time
	// Version is the version of the program that writes the page.
	Version string
	// Additions are what admission added to each member.
	Additions []PageAdditions
	// Findings are those of vet about the members.
	Findings []vet.Finding
}

// PageAdditions are what admission added to one member. Problem is why that is not known.
type PageAdditions struct {
	Member    string
	Problem   string
	Additions []injectors.Explanation
}

//go:embed page.html
var pageText string

// pageTemplate escapes every value. Its functions also remove control characters and those that change the direction
// of a text, because names and messages are those of users and programs.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"text":  joinLines,
	"lines": splitLines,
	"short": duration.HumanDuration,
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
}).Parse(pageText))

// Write writes the report as one HTML document without scripts and without references to other files.
func (p Page) Write(out io.Writer) error {
	var document bytes.Buffer
	if err := pageTemplate.Execute(&document, p); err != nil {
		return fmt.Errorf("building the report of gang %s: %w", p.Gang.Name, err)
	}
	if _, err := document.WriteTo(out); err != nil {
		return fmt.Errorf("writing the report of gang %s: %w", p.Gang.Name, err)
	}
	return nil
}

// bar is a period as a part of a line that is 1000 units long.
type bar struct {
	Period
	X, Width float64
}

// Length returns the length of the period.
func (p Period) Length() time.Duration { return p.End.Sub(p.Start) }

// Class returns the class of the activity, which determines the color.
func (p Period) Class() string { return strings.ReplaceAll(p.Activity, " ", "-") }

// scalePeriods returns the bars of periods on a line from one time to another.
func scalePeriods(periods []Period, from, to time.Time) []bar {
	var out []bar
	total := max(to.Sub(from).Seconds(), 1)
	for _, p := range periods {
		out = append(out, bar{
			Period: p,
			X:      1000 * p.Start.Sub(from).Seconds() / total,
			Width:  max(1000*p.Length().Seconds()/total, 2),
		})
	}
	return out
}

// pageAttempt is a row of the time line.
type pageAttempt struct {
	Attempt
	Bars []bar
}

// Attempts returns the rows of the time line.
func (p Page) Attempts() []pageAttempt {
	attempts := p.Gang.listAttempts(p.Now)
	var out []pageAttempt
	for _, a := range attempts {
		bars := scalePeriods(a.Periods, attempts[0].Start(), attempts[len(attempts)-1].Finish())
		out = append(out, pageAttempt{a, bars})
	}
	return out
}

// Progress returns the step of the gang and the time that is left; empty if it is not known.
func (p Page) Progress() string {
	if p.Gang.Progress == nil {
		return ""
	}
	return PrintOptions{Now: p.Now}.formatProgress(*p.Gang.Progress)
}

// Activities returns what the gang did, as bars of its seconds.
func (p Page) Activities() []bar {
	var periods []Period
	end := time.Time{}
	for _, a := range p.Gang.listActivities(p.Now) {
		if a.Seconds > 0 {
			start := end
			end = start.Add(time.Duration(a.Seconds) * time.Second)
			periods = append(periods, Period{a.Text, start, end})
		}
	}
	return scalePeriods(periods, time.Time{}, end)
}

// Legend returns the states of the ranks.
func (p Page) Legend() []stateCount { return countStates(p.Gang.Ranks) }

// Grids returns the grid of each member.
func (p Page) Grids() [][]gridLine {
	var out [][]gridLine
	for _, m := range p.Gang.Members {
		own := slices.DeleteFunc(slices.Clone(p.Gang.Ranks), func(r Rank) bool { return r.Member != m.Name })
		out = append(out, listGridLines(own, 50))
	}
	return out
}

// rows are the first rows of a table, and the number of those that it omits.
type rows[T any] struct {
	Shown  []T
	Hidden int
}

func limitRows[T any](all []T, limit int) rows[T] {
	n := min(len(all), limit)
	return rows[T]{all[:n], len(all) - n}
}

// pageRank is a row of the table of ranks.
type pageRank struct {
	Rank
	periods []Period
	Bars    []bar
}

// Ranks returns the ranks with their pods. If there are too many, these are the ranks that neither are ready nor
// succeeded, and those whose program started last.
func (p Page) Ranks() rows[pageRank] {
	var all []pageRank
	for _, rank := range p.Gang.Ranks {
		all = append(all, pageRank{Rank: rank, periods: p.Gang.listPodPeriods(rank, p.Now)})
	}
	startTime := func(r pageRank) time.Time {
		started, _ := p.Gang.programTimes(r.Rank)
		if r.State != lifecycle.RankReady && r.State != lifecycle.RankSucceeded {
			return p.Now.Add(time.Hour) // before all others
		}
		return started
	}
	slices.SortStableFunc(all, func(a, b pageRank) int { return startTime(b).Compare(startTime(a)) })
	out := limitRows(all, maxPageRanks)
	slices.SortFunc(out.Shown, func(a, b pageRank) int { return cmp.Compare(a.Rank.Rank, b.Rank.Rank) })
	var from, to time.Time
	for _, r := range out.Shown {
		if n := len(r.periods); n > 0 {
			if start := r.periods[0].Start; from.IsZero() || start.Before(from) {
				from = start
			}
			to = later(to, r.periods[n-1].End)
		}
	}
	for i := range out.Shown {
		out.Shown[i].Bars = scalePeriods(out.Shown[i].periods, from, to)
	}
	return out
}

// listPodPeriods returns what the pod of a rank did until it ended or until now.
func (g Gang) listPodPeriods(rank Rank, now time.Time) []Period {
	if rank.Object == nil {
		return nil
	}
	end, scheduled := now, now
	started, ended := g.programTimes(rank)
	if !ended.IsZero() {
		end = ended
	}
	if started.IsZero() {
		started = end
	}
	if rank.Node != "" {
		scheduled = rank.Object.CreationTimestamp.Time
	}
	for _, c := range rank.Object.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			scheduled = c.LastTransitionTime.Time
		}
	}
	return joinPeriods(rank.Object.CreationTimestamp.Time, end, []Period{
		{Activity: "waiting for a node", End: scheduled},
		{Activity: "preparing", End: started},
		{Activity: "running its program", End: end},
	})
}

// pageNode is a row of the table of nodes.
type pageNode struct {
	Name   string
	Ranks  string
	Counts []stateCount
	failed int
}

// Nodes returns the nodes of the ranks, those with the most failed ranks first.
func (p Page) Nodes() rows[pageNode] {
	byName := map[string][]Rank{}
	for _, rank := range p.Gang.Ranks {
		if rank.Node != "" {
			byName[rank.Node] = append(byName[rank.Node], rank)
		}
	}
	var all []pageNode
	for name, own := range byName {
		node := pageNode{Name: name, Ranks: rankGroup(own).formatRanks(), Counts: countStates(own)}
		for _, count := range node.Counts {
			if count.State == lifecycle.RankFailed {
				node.failed = count.Ranks
			}
		}
		all = append(all, node)
	}
	slices.SortFunc(all, func(a, b pageNode) int {
		return cmp.Or(cmp.Compare(b.failed, a.failed), cmp.Compare(a.Name, b.Name))
	})
	return limitRows(all, maxPageNodes)
}

// ShownFindings returns the first findings.
func (p Page) ShownFindings() rows[vet.Finding] { return limitRows(p.Findings, maxPageFindings) }
