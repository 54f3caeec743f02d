package bench

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// peerVariants are the variants of TestPeers. The ratios compare with variantManual, a gang without an
// operator.
var peerVariants = []variant{
	variantPlain, variantManual, variantJobSet, variantTrainer, variantMPI, variantLabeled,
}

// peersFile is the page with the table of TestPeers, between peersBegin and peersEnd.
const (
	peersFile  = "../../docs/benchmarks.md"
	peersBegin = "<!-- make bench-peers writes this table -->\n"
	peersEnd   = "<!-- end of the table -->\n"
)

// TestPeers measures gangs of Rollcall and of other operators by turns, and writes the table of peersFile.
func TestPeers(t *testing.T) {
	if os.Getenv(peersEnv) != "true" {
		t.Skipf("%s=true measures gangs of other operators, too", peersEnv)
	}
	loads := overheadLoads
	if os.Getenv(profileEnv) == "true" {
		loads = profileLoads
	}
	summaries := runRounds(t, loads, peerVariants)
	reportResults(t, summaries)
	page, err := os.ReadFile(peersFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := replacePeersTable(string(page), formatPeers(summaries, describeMachine()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(peersFile, []byte(text), 0o644); err != nil { // a page of the repository
		t.Fatalf("writing the table: %v", err)
	}
}

// replacePeersTable replaces the table of a page.
func replacePeersTable(page, table string) (string, error) {
	before, rest, hasBegin := strings.Cut(page, peersBegin)
	_, after, hasEnd := strings.Cut(rest, peersEnd)
	if !hasBegin || !hasEnd {
		return "", fmt.Errorf("replacing the table: the page has no lines %q and %q", peersBegin, peersEnd)
	}
	return before + peersBegin + "\n" + table + "\n" + peersEnd + after, nil
}

// describeMachine returns the commit and the machine of a run.
func describeMachine() string {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if match := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(text); match != nil {
			model = string(match[1])
		}
	}
	load := "unknown"
	if text, err := os.ReadFile(filepath.Join("/proc", "loadavg")); err == nil {
		load, _, _ = strings.Cut(string(text), " ")
	}
	return fmt.Sprintf("Commit `%s`, %d cores (%s), load average %s at the end.",
		strings.TrimSpace(string(commit)), runtime.NumCPU(), model, load)
}

// peerNames are the kinds of gangs in the table.
var peerNames = map[variant]string{
	variantPlain:   "Plain Job",
	variantManual:  "Plain Job, variables and Service by hand",
	variantJobSet:  "JobSet",
	variantTrainer: "Kubeflow Trainer",
	variantMPI:     "mpi-operator",
	variantLabeled: "Rollcall",
}

// rollcallProgram is the name of the processes of Rollcall.
const rollcallProgram = "manager"

// countNeededCPUSeconds returns the CPU time of all programs that the variant needs. The operators of other
// variants also watch its pods.
func (f variantSummary) countNeededCPUSeconds() float64 {
	needed := f.Median
	needed.CPUSeconds = maps.Clone(needed.CPUSeconds)
	if f.Variant != variantLabeled {
		delete(needed.CPUSeconds, rollcallProgram)
	}
	for _, o := range otherOperators {
		if !o.isNeededBy(f.Variant) {
			delete(needed.CPUSeconds, o.program)
		}
	}
	return needed.totalCPUSeconds()
}

// formatPeers returns a table with the median and the range of each variant.
func formatPeers(summaries []loadSummary, machine string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s Medians and ranges of %d rounds by turns.\n\n", machine, len(summaries[0].Variants[0].Rounds))
	out.WriteString("| Load | Gang | Until all pods are ready | Relative to by hand | CPU | " +
		"Writes per gang | Bytes per pod |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, s := range summaries {
		manual := s.forVariant(variantManual)
		for _, f := range s.Variants {
			ready, ratio := make([]float64, len(f.Rounds)), make([]float64, len(f.Rounds))
			for i, r := range f.Rounds {
				ready[i], ratio[i] = r.ReadySeconds, r.ReadySeconds/manual.Rounds[i].ReadySeconds
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %.1f s | %.1f | %.0f |\n", s.load,
				cmp.Or(peerNames[f.Variant], string(f.Variant)), formatRange(ready, " s"), formatRange(ratio, ""),
				f.countNeededCPUSeconds(), f.countWhere(func(w writeKind) bool { return !w.Rejected }), f.Median.PodBytes)
		}
	}
	return out.String()
}

// formatRange returns the median and the range of values.
func formatRange(values []float64, unit string) string {
	return fmt.Sprintf("%.2f%s (%.2f-%.2f)",
		computeMedian(slices.Clone(values)), unit, slices.Min(values), slices.Max(values))
}

// TestPeersTable checks that the table is replaced, and that it has a row for each variant with the CPU time
// of the programs that the variant needs.
func TestPeersTable(t *testing.T) {
	results := loadResult{load: load{Gangs: 2, Ranks: 8}, runs: map[variant][]runResult{}}
	for i, v := range peerVariants {
		for round := range 3 {
			results.runs[v] = append(results.runs[v], runResult{
				ReadySeconds: float64((i + 1) * (round + 1)), PodBytes: 2048,
				CPUSeconds: map[string]float64{
					"kube-apiserver": 1.5, rollcallProgram: 0.1, "jobset": 0.2, "trainer": 0.4, "mpi-operator": 0.8,
				},
				writes: map[writeKind]int{{Writer: "x", Verb: "create", Resource: "pods"}: 16},
			})
		}
	}
	table := formatPeers([]loadSummary{results.summarizeRuns(peerVariants)}, "Commit `a`.")
	got, err := replacePeersTable("Before.\n"+peersBegin+"old\n"+peersEnd+"After.\n", table)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Before.\n" + peersBegin, peersEnd + "After.\n", "Commit `a`. Medians and ranges of 3 rounds",
		"| 2 gangs of 8 ranks | Plain Job | 2.00 s (1.00-3.00) | 0.50 (0.50-0.50) | 1.5 s | 8.0 | 2048 |\n",
		"| Plain Job, variables and Service by hand | 4.00 s (2.00-6.00) | 1.00 (1.00-1.00) | 1.5 s |",
		"| JobSet | 6.00 s (3.00-9.00) | 1.50 (1.50-1.50) | 1.7 s |",
		"| Kubeflow Trainer | 8.00 s (4.00-12.00) | 2.00 (2.00-2.00) | 2.1 s |",
		"| mpi-operator | 10.00 s (5.00-15.00) | 2.50 (2.50-2.50) | 2.3 s |",
		"| Rollcall | 12.00 s (6.00-18.00) | 3.00 (3.00-3.00) | 1.6 s |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not contain %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Errorf("the page contains the old table:\n%s", got)
	}
	if _, err := replacePeersTable("no table", table); err == nil {
		t.Error("a page without a table has no error")
	}
}
