package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/lifecycle"
)

// newRanks returns ranks in the given states. Each character is the cell of one state.
func newRanks(cells string) []Rank {
	var ranks []Rank
	for i, cell := range cells {
		for state, symbol := range stateSymbols {
			if symbol.cell == string(cell) {
				rank := Rank{Rank: int32(i), State: state, Member: "train", Role: "worker"}
				if state != lifecycle.RankMissing {
					rank.Pod = fmt.Sprintf("train-%d", i)
				}
				ranks = append(ranks, rank)
			}
		}
	}
	return ranks
}

func TestPrintGrid(t *testing.T) {
	thousandReady := strings.Repeat("#", 1000)
	for name, c := range map[string]struct {
		cells string
		width int
		want  string
	}{
		"a small gang is one row": {
			cells: "##o.",
			want:  "      0  ##o.\n",
		},
		"a space separates ten cells": {
			cells: strings.Repeat("#", 12) + "x",
			want:  "      0  ########## ##x\n",
		},
		"each row starts with its first rank": {
			cells: strings.Repeat("#", 55),
			want:  "      0  ########## ########## ########## ########## ##########\n     50  #####\n",
		},
		"more than two equal rows become a range": {
			cells: thousandReady,
			want:  "      0  ########## … 999  all ready\n",
		},
		"one different rank in a thousand has its own row": {
			cells: thousandReady[:420] + "x" + thousandReady[421:],
			want: "      0  ########## … 399  all ready\n" +
				"    400  ########## ########## x######### ########## ##########\n" +
				"    450  ########## … 999  all ready\n",
		},
		"a wide terminal has longer rows": {
			cells: thousandReady[:60] + "x",
			width: 200,
			want:  "      0  ########## ########## ########## ########## ########## ########## x\n",
		},
		"uniform rows of different states are separate ranges": {
			cells: thousandReady[:150] + strings.Repeat(".", 200),
			want:  "      0  ########## … 149  all ready\n    150  .......... … 349  all missing\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printGrid(&out, PrintOptions{Width: c.width}, newRanks(c.cells))
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("grid (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormatBlocksColors(t *testing.T) {
	got := PrintOptions{Color: true}.formatBlocks(listBlocks(newRanks("##x")))
	if want := "\x1b[32m##\x1b[0m\x1b[31mx\x1b[0m"; got != want {
		t.Errorf("formatBlocks() = %q, want %q with one color sequence for equal cells", got, want)
	}
}
