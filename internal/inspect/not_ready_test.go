package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/lifecycle"
)

// newPullingRanks returns 40 ranks: 0 to 7 and 20 are ready, 30 has failed, and the others wait for
// their image.
func newPullingRanks() []Rank {
	var ranks []Rank
	for i := range int32(40) {
		rank := Rank{Rank: i, State: lifecycle.RankReady, Member: "train"}
		if i >= 8 && i != 20 {
			rank = Rank{
				Rank: i, State: lifecycle.RankPending, Member: "train",
				Pod:    fmt.Sprintf("train-%d-abcde", i),
				Node:   fmt.Sprintf("node-%d", i%5),
				Reason: "container trainer: ImagePullBackOff",
			}
		}
		ranks = append(ranks, rank)
	}
	ranks[30] = Rank{
		Rank: 30, State: lifecycle.RankFailed, Member: "train",
		Pod:    "train-30-abcde",
		Node:   "node-0",
		Reason: "Error,\tcontainer trainer\nended \x1b[31mbadly",
	}
	return ranks
}

func TestPrintNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		ranks []Rank
		want  string
	}{
		"no table if all ranks are ready or succeeded": {
			ranks: newRanks("##++"),
		},
		"equal reasons share a row and lose control characters": {
			ranks: newPullingRanks(),
			want: `
RANK                    STATE    POD              NODE     REASON
8-19,21-29,31-39 (30)   pending  train-8-abcde +29  5 nodes  container trainer: ImagePullBackOff
30                      failed   train-30-abcde   node-0   Error, container trainer | ended [31mbadly
`,
		},
		"missing ranks have no pod and no node": {
			ranks: newRanks("#.."),
			want: `
RANK     STATE   POD  NODE  REASON
1-2 (2)  missing  -    -
`,
		},
		"only the first four ranges are shown": {
			ranks: newRanks(".#.#.#.#.#"),
			want: `
RANK           STATE    POD  NODE  REASON
0,2,4,6,… (5)  missing  -    -
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printNotReady(&out, PrintOptions{}, c.ranks)
			if diff := cmp.Diff(collapseSpaces(c.want), collapseSpaces(out.String())); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

// collapseSpaces returns the lines of a text with single spaces, so that the comparison does not
// depend on the width of columns.
func collapseSpaces(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestPrintNotReadyLimit(t *testing.T) {
	var ranks []Rank
	for i := range int32(40) {
		ranks = append(ranks, Rank{Rank: i, State: lifecycle.RankFailed, Reason: fmt.Sprint("reason ", i)})
	}
	var out strings.Builder
	printNotReady(&out, PrintOptions{}, ranks)
	if !strings.HasSuffix(out.String(), "and 25 more rows; -o json prints all ranks\n") {
		t.Errorf("the last line does not report the omitted rows:\n%s", out.String())
	}
}
