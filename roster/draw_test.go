package roster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// ranksOf are ranks in the given states, one letter each: the cells of the grid.
func ranksOf(cells string) []Rank {
	var out []Rank
	for i, cell := range cells {
		for state, s := range symbols {
			if s.cell == string(cell) {
				r := Rank{Rank: int32(i), State: state, Member: "train", Role: "worker"}
				if state != Absent {
					r.Pod = fmt.Sprintf("train-%d", i)
				}
				out = append(out, r)
			}
		}
	}
	return out
}

func TestGrid(t *testing.T) {
	many := strings.Repeat("#", 1000)
	for name, c := range map[string]struct {
		reason string
		cells  string
		width  int
		want   string
	}{
		"four": {reason: "the usual gang", cells: "##o.", want: "      0  ##o.\n"},
		"groups of ten": {reason: "so that one can count", cells: strings.Repeat("#", 12) + "x",
			want: "      0  ########## ##x\n"},
		"two rows": {reason: "the number of the first rank stands before each", cells: strings.Repeat("#", 55),
			want: "      0  ########## ########## ########## ########## ##########\n     50  #####\n"},
		"a thousand alike": {reason: "fit a screen", cells: many,
			want: "      0  ########## … 999  all ready\n"},
		"one of a thousand": {reason: "is seen, with its row", cells: many[:420] + "x" + many[421:],
			want: "      0  ########## … 399  all ready\n" +
				"    400  ########## ########## x######### ########## ##########\n" +
				"    450  ########## … 999  all ready\n"},
		"wide": {reason: "a wide terminal has longer rows", cells: many[:60] + "x", width: 200,
			want: "      0  ########## ########## ########## ########## ########## ########## x\n"},
		"alike and different": {reason: "rows of one state each, but not of the same", cells: many[:150] + strings.Repeat(".", 200),
			want: "      0  ########## … 149  all ready\n    150  .......... … 349  all no pod\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			drawGrid(&out, Style{Width: c.width}, ranksOf(c.cells))
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestGridColors(t *testing.T) {
	got := Style{Color: true}.cells(ranksOf("##x"))
	if want := "\x1b[32m##\x1b[0m\x1b[31mx\x1b[0m"; got != want {
		t.Errorf("one colour for each run of equal cells: got %q, want %q", got, want)
	}
}

func TestLacking(t *testing.T) {
	var pulling []Rank
	for i := range int32(40) {
		r := Rank{Rank: i, State: Ready, Member: "train"}
		if i >= 8 && i != 20 {
			r = Rank{Rank: i, State: Waiting, Member: "train", Pod: fmt.Sprintf("train-%d-abcde", i), Node: fmt.Sprintf("node-%d", i%5),
				Reason: "container trainer: ImagePullBackOff"}
		}
		pulling = append(pulling, r)
	}
	pulling[30] = Rank{Rank: 30, State: Failed, Member: "train", Pod: "train-30-abcde", Node: "node-0", Reason: "Error,\tcontainer trainer\nended \x1b[31mbadly"}
	for name, c := range map[string]struct {
		reason string
		ranks  []Rank
		want   string
	}{
		"all well": {reason: "no table of nothing", ranks: ranksOf("##++")},
		"some wait": {reason: "what is alike is said once, and a program's text cannot move the cursor", ranks: pulling, want: `
RANK                    STATE    POD              NODE     REASON
8-19,21-29,31-39 (30)   waiting  train-8-abcde +29  5 nodes  container trainer: ImagePullBackOff
30                      failed   train-30-abcde   node-0   Error, container trainer | ended [31mbadly
`},
		"no pods": {reason: "a rank without a pod has no name to say", ranks: ranksOf("#.."), want: `
RANK     STATE   POD  NODE  REASON
1-2 (2)  no pod  -    -
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			drawLacking(&out, Style{}, c.ranks)
			if diff := cmp.Diff(columns(c.want), columns(out.String())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// columns makes the width of columns no matter.
func columns(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

func TestLackingIsBounded(t *testing.T) {
	var ranks []Rank
	for i := range int32(40) {
		ranks = append(ranks, Rank{Rank: i, State: Failed, Reason: fmt.Sprint("reason ", i)})
	}
	var out strings.Builder
	drawLacking(&out, Style{}, ranks)
	if !strings.HasSuffix(out.String(), "and 25 more rows; -o json prints all ranks\n") {
		t.Errorf("what was left out is not said:\n%s", out.String())
	}
}

func TestDraw(t *testing.T) {
	ranks := append(ranksOf("#"), Rank{Rank: 1, State: Ready, Member: "train-worker", Role: "worker", Pod: "train-worker-0"},
		Rank{Rank: 2, State: Failed, Member: "train-worker", Role: "worker", Pod: "train-worker-1", Node: "node-b", Reason: "OOMKilled"})
	ranks[0].Member, ranks[0].Role = "train-launcher", "launcher"
	g := Gang{
		Name: "train", Namespace: "team", Framework: "mpi", Phase: gang.Restarting, Since: ptr.To(noon.Add(-90 * time.Second)),
		Attempt: 2, MaxRestarts: ptr.To[int32](3), NotBefore: ptr.To(noon.Add(8 * time.Second)),
		Message: "Attempt 2 of 3: rank 2", Size: 3, Ready: 2,
		Cause: &gang.Fall{Rank: 2, Pod: "train-worker-1", Node: "node-b", Container: "worker", ExitCode: 137, Reason: "OOMKilled",
			Message: "step 41\nCUDA out of memory", At: noon.Add(-91 * time.Second)},
		Members: []Member{
			{Kind: gang.Job, Name: "train-launcher", Role: "launcher", Size: 1, Ready: 1},
			{Kind: gang.StatefulSet, Name: "train-worker", Role: "worker", Offset: 1, Size: 2, Ready: 1, Suspended: true},
			{Name: "train-chief", Role: "chief", Offset: 3, Size: 1, Missing: true},
		},
		Ranks:  ranks,
		Events: []Event{{At: noon.Add(-time.Minute), Type: "Warning", Reason: "GangRestarting", Object: "Job/train-launcher", Message: "Attempt 2 of 3", Count: 3}},
		Notes:  []string{"the gang's name is also that of Job other"},
	}
	want := `team/train  mpi  Restarting since 11:58:30 (90s)  attempt 2 of 3
Attempt 2 of 3: rank 2
Begins anew at 12:00:08, in 8s

MEMBER                    ROLE      RANKS  READY
Job train-launcher        launcher  0      1/1
StatefulSet train-worker  worker    1-2    1/2 suspended
train-chief               chief     3      not there

# 2 ready   x 1 failed
  launcher
      0  #
  worker
      1  #x

RANK  STATE   POD             NODE    REASON
2     failed  train-worker-1  node-b  OOMKilled

FIRST CAUSE, at 11:58:29
  rank 2 (pod train-worker-1 on node node-b): OOMKilled, container worker ended with exit code 137
    step 41
    CUDA out of memory

AGE       TYPE     REASON          OBJECT              MESSAGE
60s (x3)  Warning  GangRestarting  Job/train-launcher  Attempt 2 of 3

note: the gang's name is also that of Job other
`
	var out strings.Builder
	Draw(&out, Style{Now: noon}, g)
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	Draw(&out, Style{Now: noon, Width: 40}, g)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 40 && !strings.HasPrefix(line, "team/") && !strings.HasPrefix(line, "note:") {
			t.Errorf("a terminal of 40 columns would break %q", line)
		}
	}
}

func TestDrawList(t *testing.T) {
	gangs := []Gang{
		{Name: "old", Namespace: "a", Framework: "jax", Created: noon.Add(-3 * time.Hour), Phase: gang.Succeeded, Size: 4, Done: 4, Message: "The gang is done"},
		{Name: "train", Namespace: "b", Framework: "pytorch", Created: noon.Add(-time.Minute), Phase: gang.Running, Size: 8, Ready: 8,
			Attempt: 1, MaxRestarts: ptr.To[int32](3), Message: "All 8 ranks are ready"},
		{Name: "unseen", Namespace: "b", Framework: "pytorch", Size: 2},
	}
	for name, c := range map[string]struct {
		reason     string
		namespaces bool
		want       string
	}{
		"one namespace": {reason: "a gang that nobody looked at has no phase, and one without a policy no attempts", want: `GANG    FRAMEWORK  PHASE      ATTEMPT  RANKS        AGE        MESSAGE
old     jax        Succeeded  -        0/4 +4 done  3h         The gang is done
train   pytorch    Running    1/3      8/8          60s        All 8 ranks are ready
unseen  pytorch    -          -        0/2          <unknown>
`},
		"all namespaces": {reason: "names alone would mislead", namespaces: true, want: `NAMESPACE  GANG    FRAMEWORK  PHASE      ATTEMPT  RANKS        AGE        MESSAGE
a          old     jax        Succeeded  -        0/4 +4 done  3h         The gang is done
b          train   pytorch    Running    1/3      8/8          60s        All 8 ranks are ready
b          unseen  pytorch    -          -        0/2          <unknown>
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			DrawList(&out, Style{Now: noon}, gangs, c.namespaces)
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestRanges(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		ranks  []int32
		want   string
	}{
		"one":       {"a number", []int32{3}, "3"},
		"unordered": {"ranks come in any order, and twice", []int32{5, 3, 4, 4}, "3-5"},
		"apart":     {"gaps are kept", []int32{0, 2, 3, 9}, "0,2-3,9"},
		"many":      {"a line has an end", []int32{0, 2, 4, 6, 8, 10}, "0,2,4,6,…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RangesOf(c.ranks).String(); got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

func TestParseRanges(t *testing.T) {
	got, err := ParseRanges("0, 4-7")
	if diff := cmp.Diff(Ranges{{0, 0}, {4, 7}}, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for reason, text := range map[string]string{
		"nothing between commas": "1,,2", "no number": "all", "backwards": "7-4", "negative": "-1", "half a range": "4-",
	} {
		if got, err := ParseRanges(text); err == nil {
			t.Errorf("%s: %q was read as %v", reason, text, got)
		}
	}
}
