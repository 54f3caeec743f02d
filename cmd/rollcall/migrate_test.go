package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/migrate"
	"rollcall.training/migrate/ledger"
)

// pytorchJob is a job of two replicas; the runPolicy is to be filled in.
const pytorchJob = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  runPolicy: {POLICY}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: "example.com/train:1"}]}}
`

func former(name, policy string) string {
	return strings.NewReplacer("NAME", name, "POLICY", policy).Replace(pytorchJob)
}

func TestMigrate(t *testing.T) {
	const settings = "# kept\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: settings}\n"
	for name, c := range map[string]struct {
		reason   string
		stdin    string
		args     []string
		code     int
		stdout   []string
		not      []string
		stderr   []string
		noReport bool
	}{
		"carried": {reason: "nothing is lost", stdin: former("train", "cleanPodPolicy: All"),
			stdout: []string{"kind: Job", "rollcall.training/clean-pod-policy: all"}, stderr: []string{"PyTorchJob train (standard input, document 1) -> job.batch/train", "carried  "}},
		"verbose": {reason: "-v names what was carried", stdin: former("train", "cleanPodPolicy: All"), args: []string{"-v"},
			stderr: []string{"carried  spec.runPolicy.cleanPodPolicy -> annotation rollcall.training/clean-pod-policy"}},
		"lost": {reason: "a loss is told by the exit code, and the rest is there", stdin: former("train", "future: 1"), code: exitLost,
			stdout: []string{"kind: Job"}, stderr: []string{"lost     spec.runPolicy.future"}},
		"one of several is bad": {reason: "the others are still done", code: exitNotMigrated,
			stdin:  former("good", "") + "---\n" + former("bad", "backoffLimit: many") + "---\n" + settings + "---\nkind: [broken\n",
			stdout: []string{"name: good", settings}, not: []string{"name: bad"},
			stderr: []string{"PyTorchJob bad (standard input, document 2): not migrated", "spec.runPolicy.backoffLimit", "document 4, line "}},
		"an unknown version": {reason: "it is named with those that are known", code: exitNotMigrated,
			stdin: strings.Replace(former("train", ""), "kubeflow.org/v1", "kubeflow.org/v7", 1), stderr: []string{"v7"}},
		"nothing to do": {reason: "what is no training job passes", stdin: settings, stdout: []string{settings}},
		"within another object": {reason: "it is printed as it was, and is not migrated", code: exitNotMigrated,
			stdin:  "kind: Experiment\napiVersion: kubeflow.org/v1beta1\nmetadata: {name: tune}\nspec: {trialTemplate: {trialSpec: {kind: PyTorchJob, apiVersion: kubeflow.org/v1, spec: {}}}}\n",
			stdout: []string{"trialSpec: {kind: PyTorchJob"},
			stderr: []string{"Experiment tune (standard input, document 1): passed on as it was\n  error    spec.trialTemplate.trialSpec holds a PyTorchJob"}},
		"selected from outside": {reason: "the selector stays, and is wrong", code: exitLost,
			stdin:  former("train", "cleanPodPolicy: All") + "---\nkind: Service\napiVersion: v1\nmetadata: {name: first}\nspec: {selector: {training.kubeflow.org/replica-index: \"0\"}}\n",
			stdout: []string{"training.kubeflow.org/replica-index"},
			stderr: []string{"Service first (standard input, document 2): passed on as it was\n  lost     spec.selector\n", "to do: write batch.kubernetes.io/job-completion-index: \"0\" in its place\n"}},
		"a chart": {reason: "it is no manifest yet", code: exitNotMigrated, stdin: "kind: PyTorchJob\nmetadata: {name: {{ .Release.Name }}}\n",
			stderr: []string{"line 2", "run helm template first"}, noReport: true},
		"no file":     {reason: "", code: exitNotMigrated, args: []string{"-f", "no-such-file.yaml"}, noReport: true},
		"two sources": {reason: "a file or a cluster", code: exitNotMigrated, args: []string{"--from-cluster"}, noReport: true},
		"wrong flag":  {reason: "allowed values are named", code: exitNotMigrated, args: []string{"--gang-scheduler", "slurm"}, noReport: true},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"migrate"}, c.args...)
			if name != "no file" {
				args = append(args, "-f", "-")
			}
			stdout, stderr, err := run(t, c.stdin, args...)
			code := 0
			var e coded
			if errors.As(err, &e) {
				code = e.code
			} else if err != nil {
				t.Fatalf("%v is no exit error", err)
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s; %v\n%s", code, c.code, c.reason, err, stderr)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("standard output lacks %q: %s\n%s", want, c.reason, stdout)
				}
			}
			for _, not := range c.not {
				if strings.Contains(stdout, not) {
					t.Errorf("standard output has %q: %s\n%s", not, c.reason, stdout)
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("standard error lacks %q: %s\n%s", want, c.reason, stderr)
				}
			}
			if c.noReport && stdout != "" {
				t.Errorf("a command that was not understood printed:\n%s", stdout)
			}
		})
	}
}

// TestMigrateJSON: everything is JSON then, the report too.
func TestMigrateJSON(t *testing.T) {
	stdout, stderr, err := run(t, former("train", "backoffLimit: 2"), "migrate", "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var obj struct{ Kind string }
	if err := json.Unmarshal([]byte(stdout), &obj); err != nil || obj.Kind != "Job" {
		t.Errorf("%v:\n%s", err, stdout)
	}
	var reports []migrate.Report
	if err := json.Unmarshal([]byte(stderr), &reports); err != nil || len(reports) != 1 || reports[0].Count(ledger.Changed) == 0 {
		t.Errorf("%v:\n%s", err, stderr)
	}
}

// TestMigratePipe: what comes out can be injected as it is, file by file of a folder.
func TestMigratePipe(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(former("train-"+name, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := run(t, "", "migrate", "-f", dir)
	if err != nil {
		t.Fatal(err)
	}
	injected, stderr, err := run(t, stdout, "inject", "-f", "-")
	if err != nil || stderr != "" {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, want := range []string{"train-a-0.train-a.default.svc.cluster.local", "train-b-0.train-b.default.svc.cluster.local"} {
		if !strings.Contains(injected, want) {
			t.Errorf("%q is missing:\n%s", want, injected)
		}
	}
}

// TestMigrateJSONFails: a program that reads standard error finds nothing but JSON there, and all mistakes.
func TestMigrateJSONFails(t *testing.T) {
	_, stderr, err := run(t, "kind: [\n---\n"+former("bad", "backoffLimit: many"), "migrate", "-f", "-", "-o", "json")
	var e coded
	if !errors.As(err, &e) || e.code != exitNotMigrated || e.Error() != "" {
		t.Errorf("%v, %+v", err, e)
	}
	var reports []migrate.Report
	if err := json.Unmarshal([]byte(stderr), &reports); err != nil || len(reports) != 2 || !reports[0].Failed() || !reports[1].Failed() {
		t.Errorf("%v:\n%s", err, stderr)
	}
}
