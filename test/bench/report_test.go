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

// goal is how much longer a labelled gang may take than the same plain Job.
const goal = 1.05

// summary is what is told of one load.
type summary struct {
	load
	// Ratio is of labelled to plain, of the medians of the seconds until all pods are ready; Goal is what it should be.
	Ratio float64 `json:"ratio"`
	Goal  float64 `json:"goal"`
	// OverByHand is the same, of labelled gangs to those that are made by hand: what Rollcall costs, and not the gang.
	OverByHand float64 `json:"ratioToByHand"`
	// Variants are in the order of the tables' columns.
	Variants []figures `json:"variants"`
}

// figures are of one variant.
type figures struct {
	Variant variant `json:"variant"`
	// Median is of each duration by itself.
	Median run `json:"median"`
	// Rounds are the single runs.
	Rounds []run `json:"rounds"`
	// Writes are per gang, as the mean of all rounds.
	Writes []counted `json:"writesPerGang"`
}

// counted is how often a kind of write was made.
type counted struct {
	write
	Count float64 `json:"count"`
}

func (m measured) summary(variants []variant) summary {
	s := summary{load: m.load, Goal: goal}
	for _, v := range variants {
		runs := m.runs[v]
		f := figures{Variant: v, Rounds: runs, Median: run{
			Ready:  median(runs, func(r run) float64 { return r.Ready }),
			Create: median(runs, func(r run) float64 { return r.Create }),
			Phase:  median(runs, func(r run) float64 { return r.Phase }),
			CPU:    map[string]float64{},
		}}
		for program := range runs[0].CPU {
			f.Median.CPU[program] = median(runs, func(r run) float64 { return r.CPU[program] })
		}
		for w, count := range sum(runs) {
			f.Writes = append(f.Writes, counted{write: w, Count: float64(count) / float64(len(runs)*m.Gangs)})
		}
		slices.SortFunc(f.Writes, func(a, b counted) int { return compare(a.write, b.write) })
		s.Variants = append(s.Variants, f)
	}
	s.Ratio = s.of(labelled).Median.Ready / s.of(plain).Median.Ready
	s.OverByHand = s.of(labelled).Median.Ready / s.of(byHand).Median.Ready
	return s
}

func sum(runs []run) map[write]int {
	total := map[write]int{}
	for _, r := range runs {
		for w, count := range r.writes {
			total[w] += count
		}
	}
	return total
}

func compare(a, b write) int {
	refused := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(a.Writer, b.Writer), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb),
		cmp.Compare(refused[a.Refused], refused[b.Refused]))
}

// median returns the one in the middle, or the mean of the two.
func median(runs []run, of func(run) float64) float64 {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, of(r))
	}
	return middle(values)
}

func middle(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func (s summary) of(v variant) figures {
	return s.Variants[slices.IndexFunc(s.Variants, func(f figures) bool { return f.Variant == v })]
}

// table shows the summary to people.
func (s summary) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "=== %s: labelled/plain %.2f (goal %.2f), labelled/by-hand %.2f\n", s.load, s.Ratio, s.Goal, s.OverByHand)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	s.head(w, "seconds, median of rounds")
	s.row(w, "until all pods are ready", func(f figures) float64 { return f.Median.Ready })
	for i := range s.Variants[0].Rounds {
		s.row(w, fmt.Sprintf("round %d", i+1), func(f figures) float64 { return f.Rounds[i].Ready })
	}
	fmt.Fprintf(w, "until all gangs are Running%s%.2f\t\t\n", strings.Repeat("\t", len(s.Variants)), s.of(labelled).Median.Phase)
	s.row(w, "ms for each creation", func(f figures) float64 { return f.Median.Create * 1000 / float64(s.Gangs) })
	s.head(w, "CPU seconds, median of rounds")
	for _, program := range slices.Sorted(maps.Keys(s.Variants[0].Median.CPU)) {
		s.row(w, program, func(f figures) float64 { return f.Median.CPU[program] })
	}
	s.row(w, "all", func(f figures) float64 {
		total := 0.0
		for _, seconds := range f.Median.CPU {
			total += seconds
		}
		return total
	})
	s.head(w, "writes per gang, mean of rounds")
	for _, kind := range s.kinds() {
		s.row(w, kind.String(), func(f figures) float64 { return f.count(kind) })
	}
	s.row(w, "all that were done", func(f figures) float64 { return f.total(func(w write) bool { return !w.Refused }) })
	s.row(w, "of these, by Rollcall", func(f figures) float64 {
		return f.total(func(w write) bool { return !w.Refused && w.Writer == rollcall })
	})
	s.row(w, "all that were refused", func(f figures) float64 { return f.total(func(w write) bool { return w.Refused }) })
	// The builder never fails.
	_ = w.Flush()
	return text.String()
}

// head writes the first line of a block.
func (s summary) head(w io.Writer, name string) {
	fmt.Fprintf(w, "\t\n%s\t", name)
	for _, f := range s.Variants {
		fmt.Fprintf(w, "%s\t", f.Variant)
	}
	fmt.Fprint(w, "by the label\t\n")
}

// row writes the figure of each variant, and what the label adds.
func (s summary) row(w io.Writer, name string, of func(figures) float64) {
	fmt.Fprintf(w, "%s\t", name)
	for _, f := range s.Variants {
		fmt.Fprintf(w, "%.2f\t", of(f))
	}
	fmt.Fprintf(w, "%+.2f\t\n", of(s.of(labelled))-of(s.of(plain)))
}

// kinds are all kinds of writes that occurred in any variant.
func (s summary) kinds() []write {
	var kinds []write
	for _, f := range s.Variants {
		for _, c := range f.Writes {
			kinds = append(kinds, c.write)
		}
	}
	slices.SortFunc(kinds, compare)
	return slices.Compact(kinds)
}

func (w write) String() string {
	text := w.Writer + ": " + w.Verb + " " + w.Resource
	if w.Refused {
		text += ", refused"
	}
	return text
}

func (f figures) count(kind write) float64 {
	for _, c := range f.Writes {
		if c.write == kind {
			return c.Count
		}
	}
	return 0
}

func (f figures) total(counts func(write) bool) float64 {
	total := 0.0
	for _, c := range f.Writes {
		if counts(c.write) {
			total += c.Count
		}
	}
	return total
}

func TestMedian(t *testing.T) {
	cases := map[string]struct {
		reason string
		ready  []float64
		want   float64
	}{
		"Odd":  {"The one in the middle, in whatever order they come.", []float64{9, 1, 2}, 2},
		"Even": {"Between the two in the middle.", []float64{4, 1, 2, 9}, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var runs []run
			for _, seconds := range tc.ready {
				runs = append(runs, run{Ready: seconds})
			}
			if got := median(runs, func(r run) float64 { return r.Ready }); got != tc.want {
				t.Errorf("%s\nmedian(%v) = %v, want %v", tc.reason, tc.ready, got, tc.want)
			}
		})
	}
}
