package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/ranges"
)

// maxNotReadyRows is the maximum number of rows in the table of ranks that are not ready.
const maxNotReadyRows = 15

// rankGroup is one row of that table: ranks of one member that are not ready for one reason. It is not empty.
type rankGroup []Rank

// groupNotReady groups the ranks that are neither ready nor succeeded by member, state and reason.
// The groups are in the order of their first ranks.
func groupNotReady(ranks []Rank) []rankGroup {
	var groups []rankGroup
	indexes := map[Rank]int{} // by what a group has in common
	for _, rank := range ranks {
		if rank.State == lifecycle.RankReady || rank.State == lifecycle.RankSucceeded {
			continue
		}
		common := Rank{Member: rank.Member, State: rank.State, Reason: rank.Reason}
		i, ok := indexes[common]
		if !ok {
			i, indexes[common] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], rank)
	}
	return groups
}

// printNotReady prints the table of ranks that are not ready. It prints nothing if all are.
func printNotReady(out io.Writer, o PrintOptions, ranks []Rank) {
	groups := groupNotReady(ranks)
	if len(groups) == 0 {
		return
	}
	rows := [][]string{{"RANK", "STATE", "POD", "NODE", "REASON"}}
	for _, g := range groups[:min(len(groups), maxNotReadyRows)] {
		rows = append(rows, []string{
			g.formatRanks(), string(g[0].State), g.formatPods(), g.formatNodes(), joinLines(g[0].Reason),
		})
	}
	fmt.Fprintln(out)
	o.printTable(out, rows)
	if more := len(groups) - maxNotReadyRows; more > 0 {
		fmt.Fprintf(out, "and %d more rows; -o json prints all ranks\n", more)
	}
}

// formatRanks returns the first ranges of the ranks, followed by their number if there are several.
func (g rankGroup) formatRanks() string {
	var ranks []int32
	for _, rank := range g {
		ranks = append(ranks, rank.Rank)
	}
	const limit = 4 // so that the text fits in a line
	set, more := ranges.Of(ranks), ""
	if len(set) > limit {
		set, more = set[:limit], ",…"
	}
	text := set.String() + more
	if len(ranks) > 1 {
		text += fmt.Sprintf(" (%d)", len(ranks))
	}
	return text
}

// formatPods returns the name of the first pod and the number of the others.
func (g rankGroup) formatPods() string {
	first := g[0].Pod
	if first == "" {
		return "-"
	}
	if len(g) > 1 {
		return fmt.Sprintf("%s +%d", first, len(g)-1)
	}
	return first
}

// formatNodes returns the names of up to two nodes, or the number of nodes if there are more.
func (g rankGroup) formatNodes() string {
	var names []string
	for _, rank := range g {
		if rank.Node != "" && !slices.Contains(names, rank.Node) {
			names = append(names, rank.Node)
		}
	}
	switch {
	case len(names) == 0:
		return "-"
	case len(names) > 2:
		return fmt.Sprintf("%d nodes", len(names))
	default:
		return strings.Join(names, ",")
	}
}
