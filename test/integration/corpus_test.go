package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/trainer"
)

// corpusEnv is the variable with the directory of a corpus of real manifests. The subdirectory jobs has
// jobs of other systems, and plain has labeled Jobs. The name of a file starts with its origin:
// owner+repository__path.
const corpusEnv = "ROLLCALL_TEST_CORPUS"

// corpusRow is one line of the table of a corpus: the jobs of one kind from one source.
type corpusRow struct {
	source, kind string
	// jobs is the number of jobs. Of these, migrated were converted, admitted were also injected by
	// rollcall inject, and valid were also accepted by the API server.
	jobs, migrated, admitted, valid int
	// exitCodes counts the files by the exit code of rollcall migrate. A file with jobs of several kinds
	// counts in each row.
	exitCodes [3]int
}

// corpusRun sweeps a corpus.
type corpusRun struct {
	program string
	// validate returns the error of the API server for an object.
	validate func(manifest.Object) error
	rows     map[string]*corpusRow
	// problems are the objects that the API server rejects, and why.
	problems []string
}

// testCorpus runs the commands on all manifests of a corpus and prints a table. It fails if a command
// breaks its contract: rollcall migrate must print only what rollcall inject admits.
func testCorpus(t *testing.T, m *manager, ns string) {
	dir := os.Getenv(corpusEnv)
	if dir == "" {
		t.Skipf("%s is not set; set it to a directory of real manifests", corpusEnv)
	}
	files, err := filepath.Glob(filepath.Join(dir, "jobs", "*"))
	if err != nil || len(files) == 0 {
		t.Skipf("%s has no files in its subdirectory jobs (%v)", dir, err)
	}
	runner := newDryRunner(t, m)
	run := corpusRun{
		program:  buildCommand(t),
		validate: func(o manifest.Object) error { return runner.create(t.Context(), ns, o) },
		rows:     map[string]*corpusRow{},
	}
	for _, file := range files {
		run.sweepJobs(t, file)
	}
	t.Logf("jobs of other systems:\n%s", run.formatRows())
	t.Logf("rejected by the API server:\n%s", strings.Join(run.problems, "\n"))
	plain, err := filepath.Glob(filepath.Join(dir, "plain", "*"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("labeled Jobs:\n%s", run.sweepLabeledJobs(t, plain))
}

// sweepJobs migrates one file and adds its jobs to the rows.
func (r *corpusRun) sweepJobs(t *testing.T, file string) {
	t.Helper()
	stdout, stderr, code := r.execute(t, nil, "migrate", "-o", "json", "-f", file)
	var reports []migrate.Report
	if err := json.Unmarshal(stderr, &reports); err != nil {
		t.Errorf("%s: the report of migrate is not JSON: %v\n%s", file, err, stderr)
		return
	}
	accepted := r.findAccepted(t, file, stdout)
	_, denials, injectCode := r.execute(t, stdout, "inject", "-o", "json", "-f", "-")
	isAdmitted := injectCode == 0
	if !isAdmitted {
		t.Errorf("%s: migrate printed what inject denies:\n%s", file, denials)
	}
	counted := map[*corpusRow]bool{}
	for _, report := range reports {
		if report.Passthrough {
			continue
		}
		kind, _, _ := strings.Cut(report.Object, " ")
		if trainer.IsRuntimeKind(kind) {
			continue
		}
		row := r.rowOf(file, cmp.Or(kind, "(unreadable)"))
		if !counted[row] {
			counted[row] = true
			row.exitCodes[code]++
		}
		row.jobs++
		if len(report.Outputs) == 0 {
			continue
		}
		row.migrated++
		if isAdmitted {
			row.admitted++
		}
		if !slices.ContainsFunc(report.Outputs, func(name string) bool { return !accepted[name] }) {
			row.valid++
		}
	}
}

// findAccepted returns the objects of a manifest that the API server accepts, by the name that kubectl
// prints. A kind that the cluster does not have is accepted.
func (r *corpusRun) findAccepted(t *testing.T, file string, text []byte) map[string]bool {
	t.Helper()
	docs, err := manifest.Read(file, bytes.NewReader(text))
	if err != nil {
		t.Errorf("%s: the output of migrate cannot be read: %v", file, err)
	}
	accepted := map[string]bool{}
	for _, d := range docs {
		for _, o := range d.Objects() {
			name := strings.ToLower(o.Kind)
			if group := o.APIGroup(); group != "" {
				name += "." + group
			}
			name += "/" + o.Name
			err := r.validate(o)
			accepted[name] = err == nil || meta.IsNoMatchError(err)
			if !accepted[name] {
				r.problems = append(r.problems, fmt.Sprintf("%s: %s: %v", filepath.Base(file), name, err))
			}
		}
	}
	return accepted
}

// sweepLabeledJobs returns a table with the exit codes of inject and vet for each file.
func (r *corpusRun) sweepLabeledJobs(t *testing.T, files []string) string {
	t.Helper()
	return formatTable("FILE\tINJECT\tVET\tFIRST ERROR", func(w *tabwriter.Writer) {
		for _, file := range files {
			_, stderr, inject := r.execute(t, nil, "inject", "-f", file)
			_, _, vet := r.execute(t, nil, "vet", "-f", file)
			_, text, _ := strings.Cut(string(stderr), "error: ")
			_, first, _ := strings.Cut(text, "): ") // after the name of the file and the object
			first, _, _ = strings.Cut(first, "\n")
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", filepath.Base(file), inject, vet, first)
		}
	})
}

// execute runs the command and returns its output and exit code, which must be 0, 1 or 2.
func (r *corpusRun) execute(t *testing.T, stdin []byte, args ...string) (stdout, stderr []byte, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), r.program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exitErr *exec.ExitError
	if err != nil && !errors.As(err, &exitErr) {
		t.Fatal(err)
	}
	code = cmd.ProcessState.ExitCode()
	if code < 0 || code > 2 {
		t.Fatalf("%q: exit code %d\n%s", args, code, errs.String())
	}
	return out.Bytes(), errs.Bytes(), code
}

func (r *corpusRun) rowOf(file, kind string) *corpusRow {
	name := filepath.Base(file)
	for _, prefix := range []string{"filled-in__", "rendered__"} {
		name = strings.TrimPrefix(name, prefix)
	}
	source, _, _ := strings.Cut(name, "__")
	source, _, _ = strings.Cut(source, "@")
	key := source + "\t" + kind
	if r.rows[key] == nil {
		r.rows[key] = &corpusRow{source: strings.Replace(source, "+", "/", 1), kind: kind}
	}
	return r.rows[key]
}

// formatRows returns the rows and their sum as a table.
func (r *corpusRun) formatRows() string {
	total := &corpusRow{source: "all"}
	printRow := func(w *tabwriter.Writer, row *corpusRow) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", row.source, row.kind, row.jobs, row.migrated, row.admitted,
			row.valid, row.exitCodes[0], row.exitCodes[1], row.exitCodes[2])
	}
	return formatTable("SOURCE\tKIND\tN\tMIGRATED\tADMITTED\tVALID\tEXIT 0\tEXIT 1\tEXIT 2", func(w *tabwriter.Writer) {
		for _, key := range slices.Sorted(maps.Keys(r.rows)) {
			row := r.rows[key]
			printRow(w, row)
			total.jobs, total.migrated = total.jobs+row.jobs, total.migrated+row.migrated
			total.admitted, total.valid = total.admitted+row.admitted, total.valid+row.valid
			for i, n := range row.exitCodes {
				total.exitCodes[i] += n
			}
		}
		printRow(w, total)
	})
}

// formatTable returns a table with the given header.
func formatTable(header string, writeRows func(*tabwriter.Writer)) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	writeRows(w)
	_ = w.Flush() // writing to a builder does not fail
	return out.String()
}
