package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
)

// writeFiles writes files by path into a new folder of the test and changes to it.
func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrateSummary(t *testing.T) {
	writeFiles(t, map[string]string{
		"in/a.yaml": newPyTorchJob("clean", "") + "---\n" + newPyTorchJob("dropped", "future: 1"),
		"in/b.yaml": newPyTorchJob("bad", "backoffLimit: many") + "---\n" + newPyTorchJob("worse", "backoffLimit: few") +
			"---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: settings}\n",
		"in/c.yaml": "kind: [\n",
		"in/e.yaml": "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: tune}\n",
		"in/d.yaml": "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: sim}\n",
	})
	const want = `KIND         CLEAN  ACTION  DROPPED  NOT MIGRATED  UNCHANGED
MPIJob       0      0       0        1             0
PyTorchJob   1      0       1        2             0
RayJob       0      0       0        1             0
unreadable   0      0       0        1             0
other kinds  0      0       0        0             1
total        1      0       1        5             1

OBJECTS  REASON
2        not migrated: spec.runPolicy.backoffLimit: must be a whole number
1        dropped: spec.runPolicy.future: this release does not know the field
1        not migrated: migrate does not support the kind RayJob of apiVersion "ray.io/v1"
1        not migrated: reading in/c.yaml, document 1, line 1: did not find expected node content
1        not migrated: spec.mpiReplicaSpecs: Required value: a job needs at least one replica type: launch…

ACTION  DROPPED  NOT MIGRATED  FILE
0       0        2             in/b.yaml
0       1        0             in/a.yaml
0       0        1             in/c.yaml
0       0        1             in/d.yaml
0       0        1             in/e.yaml

COPY TO REMOVE OR CONVERT  FILE
RayJob tune                in/e.yaml, document 1
`
	stdout, stderr, err := runCommand(t, "", "migrate", "-f", "in", "--summary")
	if err == nil || err.Error() != "not migrated: 5" || stderr != "" {
		t.Errorf("error %v, standard error %q", err, stderr)
	}
	if stdout != want {
		t.Error("(-want +got):\n" + cmp.Diff(want, stdout))
	}
	stdout, _, _ = runCommand(t, "", "migrate", "-f", "in", "--summary", "-o", "json")
	var summary migrationSummary
	err = json.Unmarshal([]byte(stdout), &summary)
	if err != nil || summary.Total.NotMigrated != 5 || len(summary.Objects) != 6 {
		t.Errorf("error %v, summary %+v", err, summary)
	}
}

// TestSummaryOfFleet checks that the tables of many objects fit on a screen, and that JSON names every object.
func TestSummaryOfFleet(t *testing.T) {
	var reports []migrate.Report
	for i := range 570 {
		r := migrate.Report{
			Source: fmt.Sprintf("in/%d.yaml", i), Document: 1, Object: fmt.Sprintf("RayJob job-%d", i),
			Errors: []string{fmt.Sprintf("reason-%d", i)}, Passthrough: i%2 == 0,
		}
		if i%3 == 0 {
			r.Source = clusterSourceName
		}
		reports = append(reports, r)
	}
	s := summarize(nil, reports)
	var out bytes.Buffer
	if err := s.print(&out, outputYAML); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines > 40 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
	for _, want := range []string{
		"\n0       0        1             RayJob job-0\n", "\n562 more: -o json lists all objects\n",
		"\n277 more: -o json lists all objects\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary does not contain %q:\n%s", want, out.String())
		}
	}
	want := objectOutcome{
		Source: "in/568.yaml", Document: 1, Object: "RayJob job-568", Outcome: outcomeNotMigrated, IsCopied: true,
	}
	if diff := cmp.Diff(want, s.Objects[568]); diff != "" {
		t.Errorf("an object (-want +got):\n%s", diff)
	}
}

func TestMigrateOutputDir(t *testing.T) {
	writeFiles(t, map[string]string{
		"in/team/a.yaml": newPyTorchJob("first", ""),
		"in/b.json":      `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "settings"}}`,
		"single.yaml":    newPyTorchJob("second", ""),
	})
	stdout, stderr, err := runCommand(t, newPyTorchJob("third", ""), "migrate", "-f", "in", "-f", "single.yaml", "-f", "-",
		"--output-dir", "out")
	if err != nil || stdout != "" || !strings.HasPrefix(stderr, "out: 4 files written\n") {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	for path, want := range map[string]string{
		"out/team/a.yaml": "name: first", "out/b.json": `"name": "settings"`, "out/single.yaml": "name: second",
		"out/stdin.yaml": "name: third",
	} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not contain %q: %v\n%s", path, want, err, text)
		}
	}
	_, _, err = runCommand(t, "", "migrate", "-f", "single.yaml", "-f", "in", "--output-dir", "out")
	if want := "out/b.json exists already, and no file was written"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if _, _, err := runCommand(t, "", "migrate", "-f", "in", "--output-dir", "out", "--overwrite"); err != nil {
		t.Error(err)
	}
	if err := os.MkdirAll("blocked/b.json", 0o750); err != nil {
		t.Fatal(err)
	}
	_, _, err = runCommand(t, "", "migrate", "-f", "in", "--output-dir", "blocked", "--overwrite")
	want := "blocked/b.json is a directory, and no file was written"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestMigrateSameFileName checks that two files of the input never write the same file of the output.
func TestMigrateSameFileName(t *testing.T) {
	writeFiles(t, map[string]string{"a/job.yaml": newPyTorchJob("first", ""), "b/job.yaml": newPyTorchJob("second", "")})
	_, _, err := runCommand(t, "", "migrate", "-f", "a/job.yaml", "-f", "b/job.yaml", "--output-dir", "out")
	if err == nil || !strings.Contains(err.Error(), "a/job.yaml and b/job.yaml have the same path job.yaml") {
		t.Errorf("error %v", err)
	}
}

// TestAttackMigrateOutputPath checks that names and links cannot lead out of the directory of the output.
func TestAttackMigrateOutputPath(t *testing.T) {
	writeFiles(t, map[string]string{"in/team/job.yaml": newPyTorchJob("first", ""), "elsewhere/keep.txt": ""})
	if err := os.Mkdir("out", 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", "out/team"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"--overwrite"}} {
		args = append([]string{"migrate", "-f", "in", "--output-dir", "out"}, args...)
		if _, _, err := runCommand(t, "", args...); err == nil || !strings.Contains(err.Error(), "escapes") {
			t.Errorf("%q: error %v, want one about the link", args, err)
		}
	}
	for _, name := range []string{"../../evil", "/../../../evil"} {
		text := `{"kind": "Job", "apiVersion": "batch/v1", "metadata": {"namespace": "..", "name": "` + name + `"}}`
		docs, err := manifest.Read(clusterSourceName, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := (outputFlags{dir: "out"}).write(outputYAML, nil, docs); err == nil {
			t.Errorf("%d files written for the name %s", n, name)
		}
	}
	if found, err := filepath.Glob("elsewhere/*.yaml"); err != nil || len(found) > 0 {
		t.Errorf("%v, files outside of the directory: %q", err, found)
	}
}

func TestMigrateNameSuffix(t *testing.T) {
	const job = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              image: example.com/train:1
              args: [--store=train-worker-0:6379, --log=/logs/train-worker-0, --peer=pretrain-worker-0, --group=train,
                     "a\ntrain-worker-0,train-worker-1", --claim=train-worker-0-data]
`
	stdout, stderr, err := runCommand(t, job, "migrate", "-f", "-", "--name-suffix", "-new")
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, want := range []string{
		"name: train-new\n", "--store=train-new-0.train-new:6379", "--log=/logs/train-worker-0",
		"--peer=pretrain-worker-0", "--group=train\n", "train-new-0.train-new,train-new-1.train-new",
		"--claim=train-worker-0-data",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("standard output does not contain %q:\n%s", want, stdout)
		}
	}
	if want := "warning   the suffix renames train-worker-0 to train-new-worker-0\n"; !strings.Contains(stderr, want) {
		t.Errorf("standard error does not contain %q:\n%s", want, stderr)
	}
	if _, _, err := runCommand(t, job, "migrate", "-f", "-", "--name-suffix", "_New"); err == nil {
		t.Error("the suffix _New is accepted")
	}
}

// TestMigrateKeptNames checks that objects with their former names are reported for a copy next to the jobs.
func TestMigrateKeptNames(t *testing.T) {
	stdin := newPyTorchJob("train", "")
	for i := range 7 {
		stdin += fmt.Sprintf("---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: c%d, namespace: a}\n", i)
	}
	for _, args := range [][]string{{}, {"--summary"}} {
		args = append([]string{"migrate", "-f", "-"}, args...)
		if _, stderr, err := runCommand(t, stdin, args...); err != nil || strings.Contains(stderr, keptNameNote) {
			t.Errorf("%q: error %v, unexpected note:\n%s", args, err, stderr)
		}
		args = append(args, "--name-suffix=-new")
		_, stderr, err := runCommand(t, stdin, args...)
		if err != nil || strings.Count(stderr, keptNameNote) != 7 {
			t.Errorf("%q: error %v, want the note for each ConfigMap:\n%s", args, err, stderr)
		}
		stdout, stderr, err := runCommand(t, stdin, append(args, "-o", "json")...)
		out := stdout + stderr
		if err != nil || !strings.Contains(out, `"ConfigMap a/c6"`) || strings.Contains(out, "PyTorchJob a") {
			t.Errorf("%q -o json: error %v, want the last ConfigMap:\n%s", args, err, out)
		}
	}
}

// TestMigrateUnsupported checks that a training job that no reader supports is never a success.
func TestMigrateUnsupported(t *testing.T) {
	for object, want := range map[string]string{
		"xgboostjob.kubeflow.org/v1 XGBoostJob": "convert the manifest to XGBoostJob of kubeflow.org first",
		"kubeflow.org/v1 FooJob":                `does not support the kind FooJob of apiVersion "kubeflow.org/v1"`,
		"v1 TFJob":                              "convert the manifest to TFJob of kubeflow.org first",
		"ray.io/v1 RayJob":                      "does not support the kind RayJob",
		"batch.paddlepaddle.org/v1 PaddleJob":   "convert the manifest to PaddleJob of kubeflow.org first",
		"kubeflow.org/v1 Notebook":              "",
		"example.com/v1 BackupJob":              "",
		"batch/v1 CronJob":                      "",
	} {
		apiVersion, kind, _ := strings.Cut(object, " ")
		stdin := "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: x}\n"
		stdout, stderr, err := runCommand(t, stdin, "migrate", "-f", "-")
		if failed := err != nil; failed != (want != "") || !strings.Contains(stderr, want) || stdout != stdin {
			t.Errorf("%s: error %v, want %q:\n%s%s", object, err, want, stderr, stdout)
		}
	}
}
