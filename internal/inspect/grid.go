package inspect

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/internal/lifecycle"
)

// stateSymbols are the cells of the grid. They differ without colors too.
var stateSymbols = map[lifecycle.RankState]struct{ cell, color string }{
	lifecycle.RankReady:       {cell: "#", color: colorGreen},
	lifecycle.RankPending:     {cell: "o", color: colorYellow},
	lifecycle.RankFailed:      {cell: "x", color: colorRed},
	lifecycle.RankSucceeded:   {cell: "+", color: colorCyan},
	lifecycle.RankTerminating: {cell: "-", color: colorYellow},
	lifecycle.RankMissing:     {cell: ".", color: colorFaint},
}

// cellsPerBlock is the number of cells between two spaces, so that a reader can count the cells.
const cellsPerBlock = 10

// minRankDigits is the minimum width of the rank in front of a row.
const minRankDigits = 5

// gridLine is one line of the grid. If Uniform is not empty, it stands for several rows whose ranks are all in that
// state, and has no blocks.
type gridLine struct {
	First, Last int32
	Uniform     lifecycle.RankState
	Blocks      [][]cellRun
}

// cellRun are the cells of consecutive ranks in the same state.
type cellRun struct {
	State lifecycle.RankState
	Cells string
}

// listGridLines returns the lines of the ranks of a member, with one cell for each rank. More than two consecutive rows
// of one state are one line.
func listGridLines(ranks []Rank, perRow int) []gridLine {
	rows := slices.Collect(slices.Chunk(ranks, perRow))
	var out []gridLine
	for run := range splitRuns(rows, commonState) {
		if state := commonState(run[0]); state != "" && len(run) > 2 {
			last := run[len(run)-1]
			out = append(out, gridLine{First: run[0][0].Rank, Last: last[len(last)-1].Rank, Uniform: state})
			continue
		}
		for _, row := range run {
			out = append(out, gridLine{First: row[0].Rank, Last: row[len(row)-1].Rank, Blocks: listBlocks(row)})
		}
	}
	return out
}

// commonState returns the state of all ranks of a row; empty if they differ.
func commonState(row []Rank) lifecycle.RankState {
	if slices.ContainsFunc(row, func(r Rank) bool { return r.State != row[0].State }) {
		return ""
	}
	return row[0].State
}

// listBlocks returns the cells of a row in blocks of [cellsPerBlock].
func listBlocks(row []Rank) [][]cellRun {
	var blocks [][]cellRun
	for block := range slices.Chunk(row, cellsPerBlock) {
		var runs []cellRun
		for run := range splitRuns(block, func(r Rank) lifecycle.RankState { return r.State }) {
			state := run[0].State
			runs = append(runs, cellRun{state, strings.Repeat(stateSymbols[state].cell, len(run))})
		}
		blocks = append(blocks, runs)
	}
	return blocks
}

// splitRuns returns the longest parts of a slice whose elements have the same key.
func splitRuns[T any, K comparable](all []T, key func(T) K) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for start, end := 0, 0; start < len(all); start = end {
			for end = start + 1; end < len(all) && key(all[end]) == key(all[start]); end++ {
			}
			if !yield(all[start:end]) {
				return
			}
		}
	}
}

// printGrid prints one cell for each rank of a member.
func printGrid(out io.Writer, o PrintOptions, ranks []Rank) {
	digits := minRankDigits
	if n := len(ranks); n > 0 {
		digits = max(digits, len(strconv.Itoa(int(ranks[n-1].Rank))))
	}
	for _, line := range listGridLines(ranks, o.cellsPerRow()) {
		if line.Uniform == "" {
			fmt.Fprintf(out, "  %*d  %s\n", digits, line.First, o.formatBlocks(line.Blocks))
			continue
		}
		symbol := stateSymbols[line.Uniform]
		fmt.Fprintf(out, "  %*d  %s … %d  all %s\n", digits, line.First,
			o.applyColor(symbol.color, strings.Repeat(symbol.cell, cellsPerBlock)), line.Last, line.Uniform)
	}
}

// formatBlocks returns the cells of one row. Consecutive equal cells share one color sequence.
func (o PrintOptions) formatBlocks(blocks [][]cellRun) string {
	var texts []string
	for _, block := range blocks {
		text := ""
		for _, run := range block {
			text += o.applyColor(stateSymbols[run.State].color, run.Cells)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

// cellsPerRow returns the number of cells in a line, a multiple of [cellsPerBlock].
func (o PrintOptions) cellsPerRow() int {
	const margin, blockWidth = 4 + minRankDigits, cellsPerBlock + 1
	switch {
	case o.Width >= 120:
		return 100
	case o.Width == 0 || o.Width >= margin+5*blockWidth:
		return 50
	}
	return max(1, (o.Width-margin+1)/blockWidth) * cellsPerBlock
}

// formatLegend returns each cell that occurs, with its state and the number of ranks in that state.
func formatLegend(o PrintOptions, ranks []Rank) string {
	var items []string
	for _, c := range countStates(ranks) {
		symbol := stateSymbols[c.State]
		items = append(items, fmt.Sprintf("%s %d %s", o.applyColor(symbol.color, symbol.cell), c.Ranks, c.State))
	}
	return strings.Join(items, "   ")
}

// stateCount is the number of ranks in one state.
type stateCount struct {
	State lifecycle.RankState
	Cell  string
	Ranks int
}

// countStates returns the number of ranks in each state that occurs.
func countStates(ranks []Rank) []stateCount {
	counts := map[lifecycle.RankState]int{}
	for _, rank := range ranks {
		counts[rank.State]++
	}
	var out []stateCount
	for _, state := range rankStates {
		if n := counts[state]; n > 0 {
			out = append(out, stateCount{state, stateSymbols[state].cell, n})
		}
	}
	return out
}
