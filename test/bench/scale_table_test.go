package bench

import (
	"fmt"
	"strings"
	"testing"
)

// formatScaleCurve returns a table with a column for each number of ranks.
func formatScaleCurve(results []scaleResult, machine string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n| One gang |", machine)
	for _, r := range results {
		fmt.Fprintf(&out, " %s ranks |", formatThousands(r.Ranks))
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(results)))
	row := func(name string, format func(scaleResult) string) {
		fmt.Fprintf(&out, "\n| %s |", name)
		for _, r := range results {
			fmt.Fprintf(&out, " %s |", format(r))
		}
	}
	seconds := func(name string, of func(scaleResult) float64) {
		row(name, func(r scaleResult) string { return formatSeconds(of(r)) })
	}
	count := func(name string, of func(scaleResult) int) {
		row(name, func(r scaleResult) string { return formatThousands(of(r)) })
	}
	seconds("Creation of a plain Job", func(r scaleResult) float64 { return r.plain.CreateSeconds })
	seconds("Creation of a labeled Job", func(r scaleResult) float64 { return r.start.CreateSeconds })
	seconds("Until all pods of a plain Job run", func(r scaleResult) float64 { return r.plain.ReadySeconds })
	seconds("Until all pods of the gang exist", func(r scaleResult) float64 { return r.start.PodsSeconds })
	seconds("Until all ranks run", func(r scaleResult) float64 { return r.start.ReadySeconds })
	row("Relative to the plain Job", func(r scaleResult) string {
		return fmt.Sprintf("%.2f", r.start.ReadySeconds/r.plain.ReadySeconds)
	})
	seconds("Until the phase is `Running`", func(r scaleResult) float64 { return r.start.RunningSeconds })
	seconds("From the failure of a rank until all run again", func(r scaleResult) float64 { return r.RestartSeconds })
	seconds("From the first exit until the phase is `Succeeded`", func(r scaleResult) float64 { return r.SucceedSeconds })
	count("Writes of Rollcall for the start", func(r scaleResult) int {
		return countRollcallWrites(r.start.writes, false)
	})
	count("Writes of Rollcall for the restart", func(r scaleResult) int {
		return countRollcallWrites(r.restartWrites, false)
	})
	count("Writes of Rollcall for the success", func(r scaleResult) int {
		return countRollcallWrites(r.successWrites, false)
	})
	count("Rejected writes of Rollcall", func(r scaleResult) int { return countRollcallWrites(r.allWrites(), true) })
	count("Writes of Endpoints and EndpointSlices", func(r scaleResult) int { return countEndpointWrites(r.allWrites()) })
	row("Published addresses, and bytes of these objects", func(r scaleResult) string {
		return fmt.Sprintf("%s, %s", formatThousands(r.Addresses), formatThousands(r.EndpointBytes))
	})
	row("Controller: resident memory, live heap", func(r scaleResult) string { return r.Peak.format() })
	for _, program := range listPrograms(results[0].start.CPUSeconds) {
		row("CPU of "+program+" until all run, plain and gang", func(r scaleResult) string {
			return fmt.Sprintf("%.1f s, %.1f s", r.plain.CPUSeconds[program], r.start.CPUSeconds[program])
		})
	}
	return out.String() + "\n"
}

// allWrites returns the writes of the life of the gang.
func (r scaleResult) allWrites() map[writeKind]int {
	return addWrites(r.start.writes, r.restartWrites, r.successWrites)
}

// formatSeconds returns a time with a precision that fits its size.
func formatSeconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", s*1000)
	}
	return fmt.Sprintf("%.1f s", s)
}

// formatThousands returns a number with a comma after each group of three digits.
func formatThousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", formatThousands(n/1000), n%1000)
}

// TestScaleCurveTable checks that the table has a column for each size, and which writes it counts.
func TestScaleCurveTable(t *testing.T) {
	patch := writeKind{Writer: writerRollcall, Verb: "patch", Resource: "jobs/status"}
	rejected := patch
	rejected.Rejected = true
	endpoints := writeKind{Writer: "endpoint-controller", Verb: "update", Resource: "endpoints"}
	var results []scaleResult
	for _, ranks := range []int{10, 10000} {
		results = append(results, scaleResult{
			Ranks: ranks,
			plain: startResult{ReadySeconds: 2, CPUSeconds: map[string]float64{"kwok": 1}},
			start: startResult{
				ReadySeconds: float64(ranks), CPUSeconds: map[string]float64{"kwok": 3},
				writes: map[writeKind]int{patch: 2, endpoints: 1},
			},
			restartWrites: map[writeKind]int{patch: 4, rejected: 5, endpoints: 2},
			successWrites: map[writeKind]int{patch: 1},
			Addresses:     1, EndpointBytes: 1234,
			Peak: memoryUsage{ResidentMiB: 60, LiveHeapMiB: 12.5},
		})
	}
	table := formatScaleCurve(results, "Commit `a`.")
	for _, want := range []string{
		"Commit `a`.\n\n| One gang | 10 ranks | 10,000 ranks |\n|---|---|---|\n",
		"| Until all ranks run | 10.0 s | 10000.0 s |\n| Relative to the plain Job | 5.00 | 5000.00 |\n",
		"| Writes of Rollcall for the start | 2 | 2 |\n| Writes of Rollcall for the restart | 4 | 4 |\n",
		"| Writes of Rollcall for the success | 1 | 1 |\n| Rejected writes of Rollcall | 5 | 5 |\n",
		"| Writes of Endpoints and EndpointSlices | 3 | 3 |\n",
		"| Published addresses, and bytes of these objects | 1, 1,234 | 1, 1,234 |\n",
		"| Controller: resident memory, live heap | 60 MiB, 12.5 MiB | 60 MiB, 12.5 MiB |\n",
		"| CPU of kwok until all run, plain and gang | 1.0 s, 3.0 s | 1.0 s, 3.0 s |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not contain %q:\n%s", want, table)
		}
	}
}
