package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// targetRatio is the maximum ratio of the median times of labeled gangs and plain Jobs.
const targetRatio = 1.05

// loadSummary summarizes the runs of one load.
type loadSummary struct {
	load
	// Ratio compares labeled with plain gangs: the ratio of the median seconds until all pods are
	// ready. TargetRatio is its maximum.
	Ratio       float64 `json:"ratio"`
	TargetRatio float64 `json:"targetRatio"`
	// RatioToManual is the same ratio of labeled to manual gangs: the cost of Rollcall without the
	// cost of the gang.
	RatioToManual float64 `json:"ratioToManual"`
	// Variants are in the order of the table's columns.
	Variants []variantSummary `json:"variants"`
}

// variantSummary summarizes the runs of one variant.
type variantSummary struct {
	Variant variant `json:"variant"`
	// Median holds the median of each duration separately.
	Median runResult `json:"median"`
	// Rounds holds the single runs.
	Rounds []runResult `json:"rounds"`
	// Writes holds the mean number of writes per gang over all rounds.
	Writes []writeCount `json:"writesPerGang"`
}

// writeCount is the number of writes of one kind.
type writeCount struct {
	writeKind
	Count float64 `json:"count"`
}

func (m loadResult) summarizeRuns(variants []variant) loadSummary {
	s := loadSummary{load: m.load, TargetRatio: targetRatio}
	for _, v := range variants {
		runs := m.runs[v]
		f := variantSummary{Variant: v, Rounds: runs, Median: runResult{
			ReadySeconds:   medianOfRuns(runs, func(r runResult) float64 { return r.ReadySeconds }),
			CreateSeconds:  medianOfRuns(runs, func(r runResult) float64 { return r.CreateSeconds }),
			RunningSeconds: medianOfRuns(runs, func(r runResult) float64 { return r.RunningSeconds }),
			PodBytes:       medianOfRuns(runs, func(r runResult) float64 { return r.PodBytes }),
			PodJSONBytes:   medianOfRuns(runs, func(r runResult) float64 { return r.PodJSONBytes }),
			EventBytes:     medianOfRuns(runs, func(r runResult) float64 { return r.EventBytes }),
			EventsPerPod:   medianOfRuns(runs, func(r runResult) float64 { return r.EventsPerPod }),
			CPUSeconds:     map[string]float64{},
		}}
		for program := range runs[0].CPUSeconds {
			f.Median.CPUSeconds[program] = medianOfRuns(runs, func(r runResult) float64 { return r.CPUSeconds[program] })
		}
		for w, count := range sumWrites(runs) {
			f.Writes = append(f.Writes, writeCount{writeKind: w, Count: float64(count) / float64(len(runs)*m.Gangs)})
		}
		slices.SortFunc(f.Writes, func(a, b writeCount) int { return compareWriteKinds(a.writeKind, b.writeKind) })
		s.Variants = append(s.Variants, f)
	}
	s.Ratio = s.forVariant(variantLabeled).Median.ReadySeconds / s.forVariant(variantPlain).Median.ReadySeconds
	s.RatioToManual = s.forVariant(variantLabeled).Median.ReadySeconds / s.forVariant(variantManual).Median.ReadySeconds
	return s
}

func sumWrites(runs []runResult) map[writeKind]int {
	total := map[writeKind]int{}
	for _, r := range runs {
		for w, count := range r.writes {
			total[w] += count
		}
	}
	return total
}

func compareWriteKinds(a, b writeKind) int {
	rejected := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(a.Writer, b.Writer), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb),
		cmp.Compare(rejected[a.Rejected], rejected[b.Rejected]))
}

// medianOfRuns returns the median of a value of the runs.
func medianOfRuns(runs []runResult, of func(runResult) float64) float64 {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, of(r))
	}
	return computeMedian(values)
}

func computeMedian(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func (s loadSummary) forVariant(v variant) variantSummary {
	return s.Variants[slices.IndexFunc(s.Variants, func(f variantSummary) bool { return f.Variant == v })]
}

// formatTable returns the summary as a table.
func (s loadSummary) formatTable() string {
	var text strings.Builder
	fmt.Fprintf(
		&text, "=== %s: labeled/plain %.2f (target %.2f), labeled/manual %.2f\n",
		s.load, s.Ratio, s.TargetRatio, s.RatioToManual,
	)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	s.printHeader(w, "seconds, median of rounds")
	s.printRow(w, "until all pods are ready", func(f variantSummary) float64 { return f.Median.ReadySeconds })
	for i := range s.Variants[0].Rounds {
		s.printRow(w, fmt.Sprintf("round %d", i+1), func(f variantSummary) float64 { return f.Rounds[i].ReadySeconds })
	}
	fmt.Fprintf(
		w, "until all gangs are Running%s%.2f\t\t\n",
		strings.Repeat("\t", len(s.Variants)), s.forVariant(variantLabeled).Median.RunningSeconds,
	)
	s.printRow(w, "ms for each creation", func(f variantSummary) float64 {
		return f.Median.CreateSeconds * 1000 / float64(s.Gangs)
	})
	s.printHeader(w, "CPU seconds, median of rounds")
	for _, program := range slices.Sorted(maps.Keys(s.Variants[0].Median.CPUSeconds)) {
		s.printRow(w, program, func(f variantSummary) float64 { return f.Median.CPUSeconds[program] })
	}
	s.printRow(w, "all", func(f variantSummary) float64 { return f.Median.totalCPUSeconds() })
	s.printHeader(w, "bytes, median of rounds")
	s.printRow(w, "of each pod in etcd", func(f variantSummary) float64 { return f.Median.PodBytes })
	s.printRow(w, "of each pod as JSON", func(f variantSummary) float64 { return f.Median.PodJSONBytes })
	s.printRow(w, "of each event of a pod", func(f variantSummary) float64 { return f.Median.EventBytes })
	s.printRow(w, "number of these events for each pod", func(f variantSummary) float64 { return f.Median.EventsPerPod })
	s.printHeader(w, "writes per gang, mean of rounds")
	for _, kind := range s.listWriteKinds() {
		s.printRow(w, kind.String(), func(f variantSummary) float64 { return f.countOf(kind) })
	}
	s.printRow(w, "all accepted", func(f variantSummary) float64 {
		return f.countWhere(func(w writeKind) bool { return !w.Rejected })
	})
	s.printRow(w, "of these, by Rollcall", func(f variantSummary) float64 {
		return f.countWhere(func(w writeKind) bool { return !w.Rejected && w.Writer == writerRollcall })
	})
	s.printRow(w, "all rejected", func(f variantSummary) float64 {
		return f.countWhere(func(w writeKind) bool { return w.Rejected })
	})
	// A strings.Builder never fails.
	_ = w.Flush()
	return text.String()
}

// totalCPUSeconds returns the CPU time of all programs.
func (r runResult) totalCPUSeconds() float64 {
	total := 0.0
	for _, seconds := range r.CPUSeconds {
		total += seconds
	}
	return total
}

// printHeader writes the first line of a block.
func (s loadSummary) printHeader(w io.Writer, name string) {
	fmt.Fprintf(w, "\t\n%s\t", name)
	for _, f := range s.Variants {
		fmt.Fprintf(w, "%s\t", f.Variant)
	}
	fmt.Fprint(w, "added by the label\t\n")
}

// printRow writes the figure of each variant and the difference between labeled and plain.
func (s loadSummary) printRow(w io.Writer, name string, of func(variantSummary) float64) {
	fmt.Fprintf(w, "%s\t", name)
	for _, f := range s.Variants {
		fmt.Fprintf(w, "%.2f\t", of(f))
	}
	fmt.Fprintf(w, "%+.2f\t\n", of(s.forVariant(variantLabeled))-of(s.forVariant(variantPlain)))
}

// listWriteKinds returns all kinds of writes that occurred in any variant.
func (s loadSummary) listWriteKinds() []writeKind {
	var kinds []writeKind
	for _, f := range s.Variants {
		for _, c := range f.Writes {
			kinds = append(kinds, c.writeKind)
		}
	}
	slices.SortFunc(kinds, compareWriteKinds)
	return slices.Compact(kinds)
}

func (w writeKind) String() string {
	text := w.Writer + ": " + w.Verb + " " + w.Resource
	if w.Rejected {
		text += ", rejected"
	}
	return text
}

func (f variantSummary) countOf(kind writeKind) float64 {
	for _, c := range f.Writes {
		if c.writeKind == kind {
			return c.Count
		}
	}
	return 0
}

func (f variantSummary) countWhere(counts func(writeKind) bool) float64 {
	total := 0.0
	for _, c := range f.Writes {
		if counts(c.writeKind) {
			total += c.Count
		}
	}
	return total
}

func TestMedian(t *testing.T) {
	cases := map[string]struct {
		ready []float64
		want  float64
	}{
		"odd count has the middle value":               {ready: []float64{9, 1, 2}, want: 2},
		"even count has the mean of the middle values": {ready: []float64{4, 1, 2, 9}, want: 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var runs []runResult
			for _, seconds := range tc.ready {
				runs = append(runs, runResult{ReadySeconds: seconds})
			}
			if got := medianOfRuns(runs, func(r runResult) float64 { return r.ReadySeconds }); got != tc.want {
				t.Errorf("median of %v is %v, want %v", tc.ready, got, tc.want)
			}
		})
	}
}
