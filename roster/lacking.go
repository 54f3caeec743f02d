package roster

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLacking is how many rows the table of ranks that are not ready has at most.
const maxLacking = 15

// lack is a row of that table: ranks that are not ready for one reason.
type lack struct {
	state  State
	reason string
	ranks  []Rank
}

// lacks puts together the ranks of a gang that are neither ready nor done, by state and
// reason, in the order of their first ranks.
func lacks(ranks []Rank) []lack {
	var out []lack
	at := map[[3]string]int{}
	for _, r := range ranks {
		if r.State == Ready || r.State == Done {
			continue
		}
		key := [3]string{r.Member, string(r.State), r.Reason}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, lack{state: r.State, reason: r.Reason})
		}
		out[i].ranks = append(out[i].ranks, r)
	}
	return out
}

// drawLacking draws the table of ranks that are not ready.
func drawLacking(out io.Writer, s Style, ranks []Rank) {
	all := lacks(ranks)
	if len(all) == 0 {
		return
	}
	rows := [][]string{{"RANK", "STATE", "POD", "NODE", "REASON"}}
	for _, l := range all[:min(len(all), maxLacking)] {
		rows = append(rows, []string{l.which(), string(l.state), l.pods(), l.nodes(), oneLine(l.reason)})
	}
	fmt.Fprintln(out)
	s.table(out, rows)
	if more := len(all) - maxLacking; more > 0 {
		fmt.Fprintf(out, "and %d more rows; -o json prints all ranks\n", more)
	}
}

func (l lack) which() string {
	var ranks []int32
	for _, r := range l.ranks {
		ranks = append(ranks, r.Rank)
	}
	text := RangesOf(ranks).String()
	if len(ranks) > 1 {
		text += fmt.Sprintf(" (%d)", len(ranks))
	}
	return text
}

// pods names the first of the pods.
func (l lack) pods() string {
	first := l.ranks[0].Pod
	if first == "" {
		return "-"
	}
	if n := len(l.ranks); n > 1 {
		return fmt.Sprintf("%s +%d", first, n-1)
	}
	return first
}

// nodes names the nodes; of many, how many.
func (l lack) nodes() string {
	var names []string
	for _, r := range l.ranks {
		if r.Node != "" && !slices.Contains(names, r.Node) {
			names = append(names, r.Node)
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
