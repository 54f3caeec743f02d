package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// stateSymbols are the cells of the grid. They differ without colors too.
var stateSymbols = map[RankState]struct{ cell, color string }{
	RankReady:       {cell: "#", color: colorGreen},
	RankPending:     {cell: "o", color: colorYellow},
	RankFailed:      {cell: "x", color: colorRed},
	RankSucceeded:   {cell: "+", color: colorCyan},
	RankTerminating: {cell: "-", color: colorYellow},
	RankMissing:     {cell: ".", color: colorFaint},
}

// cellsPerBlock is the number of cells between two spaces, so that a reader can count the cells.
const cellsPerBlock = 10

// minRankDigits is the minimum width of the rank in front of a row.
const minRankDigits = 5

// gridRow is one line of the grid: consecutive ranks of a member. It is not empty.
type gridRow []Rank

// commonState returns the state of all ranks of the row. The result is false if they differ.
func (r gridRow) commonState() (RankState, bool) {
	for _, rank := range r {
		if rank.State != r[0].State {
			return "", false
		}
	}
	return r[0].State, true
}

// printGrid prints one cell for each rank of a member. It prints more than two consecutive rows of
// one state as a range of ranks.
func printGrid(out io.Writer, o PrintOptions, ranks []Rank) {
	perRow := o.cellsPerRow()
	digits := minRankDigits
	if n := len(ranks); n > 0 {
		digits = max(digits, len(strconv.Itoa(int(ranks[n-1].Rank))))
	}
	var rows []gridRow
	for start := 0; start < len(ranks); start += perRow {
		rows = append(rows, ranks[start:min(start+perRow, len(ranks))])
	}
	for i := 0; i < len(rows); {
		n := countUniformRows(rows[i:])
		if n <= 2 {
			fmt.Fprintf(out, "  %*d  %s\n", digits, rows[i][0].Rank, o.formatCells(rows[i]))
			i++
			continue
		}
		first, lastRow := rows[i][0], rows[i+n-1]
		symbol := stateSymbols[first.State]
		fmt.Fprintf(out, "  %*d  %s … %d  all %s\n", digits, first.Rank,
			o.applyColor(symbol.color, strings.Repeat(symbol.cell, cellsPerBlock)),
			lastRow[len(lastRow)-1].Rank, first.State)
		i += n
	}
}

// cellsPerRow returns the number of cells in a line, a multiple of [cellsPerBlock].
func (o PrintOptions) cellsPerRow() int {
	if o.Width >= 120 {
		return 100
	}
	return 50
}

// countUniformRows returns the number of rows, from the first, whose ranks are all in the state of
// the first rank. It returns 1 if the first row has several states.
func countUniformRows(rows []gridRow) int {
	state, uniform := rows[0].commonState()
	if !uniform {
		return 1
	}
	n := 1
	for n < len(rows) {
		if other, uniform := rows[n].commonState(); !uniform || other != state {
			break
		}
		n++
	}
	return n
}

// formatCells returns the cells of one row. Consecutive equal cells share one color sequence.
func (o PrintOptions) formatCells(row gridRow) string {
	var text strings.Builder
	for start := 0; start < len(row); start += cellsPerBlock {
		if start > 0 {
			text.WriteByte(' ')
		}
		block := row[start:min(start+cellsPerBlock, len(row))]
		for i := 0; i < len(block); {
			j := i
			for j < len(block) && block[j].State == block[i].State {
				j++
			}
			symbol := stateSymbols[block[i].State]
			text.WriteString(o.applyColor(symbol.color, strings.Repeat(symbol.cell, j-i)))
			i = j
		}
	}
	return text.String()
}

// formatLegend returns each cell that occurs, with its state and the number of ranks in that state.
func formatLegend(o PrintOptions, ranks []Rank) string {
	counts := map[RankState]int{}
	for _, rank := range ranks {
		counts[rank.State]++
	}
	var items []string
	for _, state := range rankStates {
		if n := counts[state]; n > 0 {
			symbol := stateSymbols[state]
			items = append(items, fmt.Sprintf("%s %d %s", o.applyColor(symbol.color, symbol.cell), n, state))
		}
	}
	return strings.Join(items, "   ")
}
