package simulation

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a wrong version of the product.
type mutant struct {
	name  string
	edits []edit
	// sequence is the start of the name of the sequence that has to find the mutant. It is empty if any scenario may.
	sequence string
	// survives is the reason for which no scenario has to find the mutant.
	survives string
}

// edit replaces text in a file, whose path is relative to internal. The file contains the text once.
type edit struct{ file, before, after string }

// finding is a line of the output of a test that failed.
var finding = regexp.MustCompile(`(?m)^\s*(?:--- FAIL: TestSequences/(.*) \(|(?:simulation_test\.go:\d+: )?(seed .*))`)

// TestMutants plants each mutant and runs the sequences and the fixed scenarios, one of which has to fail.
func TestMutants(t *testing.T) {
	mode := os.Getenv("ROLLCALL_TEST_MUTANTS")
	if mode == "" {
		t.Skip("set ROLLCALL_TEST_MUTANTS=true to build each mutant and run it until a scenario fails (30 minutes)," +
			" ROLLCALL_TEST_MUTANTS=all to run it in all scenarios, or ROLLCALL_TEST_MUTANTS=random to run it in other" +
			" random scenarios for 10 minutes or until one fails (hours)")
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			run := "^(TestSequences|TestSimulation)$"
			if m.sequence != "" {
				run = "^TestSequences$/^" + strings.ReplaceAll(regexp.QuoteMeta(m.sequence), " ", "_")
			}
			build := []string{"test", "-c", "."}
			args := []string{"-test.timeout", "20m", "-test.run", run}
			switch mode {
			case "all":
			case "random":
				build, args = []string{"build", "./cmd/simulate"}, []string{"-first"}
			default:
				args = append(args, "-test.short", "-test.failfast")
			}
			command := exec.CommandContext(t.Context(), buildMutant(t, m.edits, build), args...)
			start := time.Now()
			output, err := command.CombinedOutput()
			var found []string
			for _, match := range finding.FindAllStringSubmatch(string(output), -1) {
				found = append(found, match[1]+match[2])
			}
			if err == nil && m.survives != "" {
				t.Skip("no scenario found the mutant: " + m.survives)
			}
			if err == nil && mode == "random" && m.sequence != "" {
				t.Skipf("no random scenario found the mutant, which has a sequence:\n%s", output)
			}
			if err == nil || len(found) == 0 {
				t.Fatalf("no scenario found the mutant: %v\n%s", err, output)
			}
			t.Logf("found by %d scenarios in %s:\n%s", len(found), time.Since(start).Round(time.Second),
				strings.Join(found, "\n"))
		})
	}
}

// buildMutant runs a command of go that builds a program, with changed files, and returns the path of the program.
func buildMutant(t *testing.T, edits []edit, build []string) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{writeMutant(t, dir, edits)}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Insert(build, len(build)-1, "-overlay", list, "-o", binary)
	command := exec.CommandContext(t.Context(), "go", args...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the mutant: %v\n%s", err, output)
	}
	return binary
}

// TestMutantTexts checks that the texts that the mutants replace are part of the code. make mutants builds them.
func TestMutantTexts(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) { writeMutant(t, t.TempDir(), m.edits) })
	}
}

// writeMutant writes the changed files to a directory, and returns their paths by those of the original files.
func writeMutant(t *testing.T, dir string, edits []edit) map[string]string {
	t.Helper()
	replaced := map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(filepath.Join("../../internal", e.file))
		if err != nil {
			t.Fatal(err)
		}
		mutated, isChanged := replaced[path]
		if !isChanged {
			mutated = path
		}
		text, err := os.ReadFile(mutated)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), e.before); n != 1 {
			t.Fatalf("%s contains the text %d times, not once; adapt the mutant:\n%s", e.file, n, e.before)
		}
		replaced[path] = filepath.Join(dir, filepath.Base(path))
		changed := strings.Replace(string(text), e.before, e.after, 1)
		if err := os.WriteFile(replaced[path], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return replaced
}
