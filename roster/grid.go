package roster

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// symbols are the cells of the grid. They are told apart without colours too.
var symbols = map[State]struct{ cell, color string }{
	Ready:    {"#", green},
	Waiting:  {"o", yellow},
	Failed:   {"x", red},
	Done:     {"+", cyan},
	Stopping: {"-", yellow},
	Absent:   {".", faint},
}

// cellsPerGroup is how many cells stand together, so that one can count.
const cellsPerGroup = 10

// row is a line of the grid: some ranks, one after the other.
type row []Rank

// uniform returns the state of all ranks of the row, if it is one.
func (r row) uniform() (State, bool) {
	for _, rank := range r {
		if rank.State != r[0].State {
			return "", false
		}
	}
	return r[0].State, true
}

// drawGrid draws a cell for each rank of a member. Rows that are full and equal are
// drawn as one range of ranks when there are more than two of them.
func drawGrid(out io.Writer, s Style, ranks []Rank) {
	perRow := s.perRow()
	digits := 5
	if n := len(ranks); n > 0 {
		digits = max(digits, len(strconv.Itoa(int(ranks[n-1].Rank))))
	}
	var rows []row
	for start := 0; start < len(ranks); start += perRow {
		rows = append(rows, ranks[start:min(start+perRow, len(ranks))])
	}
	for i := 0; i < len(rows); {
		n := alike(rows[i:])
		if n <= 2 {
			fmt.Fprintf(out, "  %*d  %s\n", digits, rows[i][0].Rank, s.cells(rows[i]))
			i++
			continue
		}
		first, last := rows[i][0], rows[i+n-1]
		state := first.State
		fmt.Fprintf(out, "  %*d  %s … %d  all %s\n", digits, first.Rank,
			s.paint(symbols[state].color, strings.Repeat(symbols[state].cell, cellsPerGroup)), last[len(last)-1].Rank, state)
		i += n
	}
}

// perRow is how many cells a line has room for: whole groups, 50 at least and 100 at most.
func (s Style) perRow() int {
	if s.Width >= 120 {
		return 100
	}
	return 50
}

// alike counts the rows from the first on whose ranks are all in the same one state.
func alike(rows []row) int {
	state, ok := rows[0].uniform()
	if !ok {
		return 1
	}
	n := 1
	for n < len(rows) {
		if other, ok := rows[n].uniform(); !ok || other != state {
			break
		}
		n++
	}
	return n
}

// cells draws one row, a run of equal cells in one colour.
func (s Style) cells(r row) string {
	var out strings.Builder
	for start := 0; start < len(r); start += cellsPerGroup {
		if start > 0 {
			out.WriteByte(' ')
		}
		group := r[start:min(start+cellsPerGroup, len(r))]
		for i := 0; i < len(group); {
			j := i
			for j < len(group) && group[j].State == group[i].State {
				j++
			}
			symbol := symbols[group[i].State]
			out.WriteString(s.paint(symbol.color, strings.Repeat(symbol.cell, j-i)))
			i = j
		}
	}
	return out.String()
}

// legend counts the ranks in each state, and explains the cells.
func legend(s Style, ranks []Rank) string {
	count := map[State]int{}
	for _, r := range ranks {
		count[r.State]++
	}
	var out []string
	for _, state := range states {
		if n := count[state]; n > 0 {
			out = append(out, fmt.Sprintf("%s %d %s", s.paint(symbols[state].color, symbols[state].cell), n, state))
		}
	}
	return strings.Join(out, "   ")
}
