package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// pytorchJob is the template of a PyTorchJob of two replicas. NAME and POLICY are placeholders.
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

// newPyTorchJob returns a PyTorchJob with the given name and fields of its runPolicy.
func newPyTorchJob(name, policy string) string {
	return strings.NewReplacer("NAME", name, "POLICY", policy).Replace(pytorchJob)
}

// newPlainJob returns a Job of two pods with the given program.
func newPlainJob(program string) string {
	return "kind: Job\napiVersion: batch/v1\nmetadata: {name: train}\n" +
		"spec: {parallelism: 2, completions: 2, template: {spec: " +
		"{subdomain: hosts, restartPolicy: Never, containers: [{name: main, image: x, command: [" + program + ", t.py]}]}}}\n"
}

func TestMigrate(t *testing.T) {
	const (
		configMap  = "# kept\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: settings}\n"
		experiment = "kind: Experiment\napiVersion: kubeflow.org/v1beta1\nmetadata: {name: tune}\n" +
			"spec: {trialTemplate: {trialSpec: {kind: PyTorchJob, apiVersion: kubeflow.org/v1, spec: {}}}}\n"
		service = "kind: Service\napiVersion: v1\nmetadata: {name: first}\n" +
			"spec: {selector: {training.kubeflow.org/replica-index: \"0\"}}\n"
	)
	for name, c := range map[string]struct {
		stdin    string
		args     []string // -f - is appended if it contains no -f
		wantCode int
		stdout   []string // parts of standard output
		not      []string // absent from standard output
		stderr   []string // parts of standard error
		noOutput bool     // standard output is empty
		wantErr  string   // the complete error
		notErr   string   // absent from standard error
	}{
		"preserved and changed fields are not an error": {
			stdin:  newPyTorchJob("train", "cleanPodPolicy: All"),
			stdout: []string{"kind: Job", "rollcall.training/clean-pod-policy: all"},
			stderr: []string{"PyTorchJob train (standard input, document 1) -> job.batch/train", "preserved "},
		},
		"a verbose report names the preserved fields": {
			stdin:  newPyTorchJob("train", "cleanPodPolicy: All"),
			args:   []string{"-v"},
			stderr: []string{"preserved spec.runPolicy.cleanPodPolicy -> annotation rollcall.training/clean-pod-policy"},
		},
		"a dropped field sets the exit code and the job is printed": {
			stdin:    newPyTorchJob("train", "future: 1"),
			wantCode: exitDropped,
			stdout:   []string{"kind: Job"},
			stderr:   []string{"dropped   spec.runPolicy.future"},
		},
		"other documents are migrated if one job and one document are invalid": {
			stdin: newPyTorchJob("good", "") + "---\n" + newPyTorchJob("bad", "backoffLimit: many") + "---\n" +
				configMap + "---\nkind: [broken\n",
			wantCode: exitNotMigrated,
			stdout:   []string{"name: good", configMap},
			not:      []string{"name: bad"},
			stderr: []string{
				"PyTorchJob bad (standard input, document 2): not migrated", "spec.runPolicy.backoffLimit", "document 4, line ",
			},
		},
		"nothing else is printed if the only job is invalid": {
			stdin:    newPyTorchJob("bad", "backoffLimit: many"),
			wantCode: exitNotMigrated,
			noOutput: true,
			wantErr:  "not migrated: 1",
		},
		"a variable of envsubst is reported as a template": {
			stdin:    newPyTorchJob("train", "backoffLimit: $RETRIES"),
			wantCode: exitNotMigrated,
			stderr:   []string{"variables such as $RETRIES; substitute them first"},
			notErr:   "spec.runPolicy.backoffLimit",
		},
		"a framework that the kind defines cannot be overridden": {
			args:   []string{"--framework", "mpi"},
			stdin:  newPyTorchJob("train", ""),
			stderr: []string{"the requested framework mpi has no effect, because the PyTorchJob defines the framework pytorch"},
		},
		"an unsupported version is reported": {
			stdin:    strings.Replace(newPyTorchJob("train", ""), "kubeflow.org/v1", "kubeflow.org/v7", 1),
			wantCode: exitNotMigrated,
			stderr:   []string{"v7"},
			wantErr:  "not migrated: 1",
		},
		"other objects are printed unchanged": {
			stdin:  configMap,
			stdout: []string{configMap},
		},
		"a job within another object is reported and printed unchanged": {
			stdin:    experiment,
			wantCode: exitNotMigrated,
			stdout:   []string{"trialSpec: {kind: PyTorchJob"},
			stderr: []string{
				"Experiment tune (standard input, document 1): passed through\n" +
					"  error     spec.trialTemplate.trialSpec holds a PyTorchJob",
			},
		},
		"a selector of another object is reported and not changed": {
			stdin:    newPyTorchJob("train", "cleanPodPolicy: All") + "---\n" + service,
			wantCode: exitDropped,
			stdout:   []string{"training.kubeflow.org/replica-index"},
			stderr: []string{
				"Service first (standard input, document 2): passed through\n  dropped   spec.selector\n",
				"action: select by rollcall.training/gang: train, and batch.kubernetes.io/job-completion-index for single pods\n",
			},
		},
		"a Helm template is reported with its line": {
			stdin:    "kind: PyTorchJob\nmetadata: {name: {{ .Release.Name }}}\n",
			wantCode: exitNotMigrated,
			stderr:   []string{"line 2", "the document is a template; render it first"},
			noOutput: true,
		},
		"a hand-written Job becomes a gang, and its Service is left out": {
			stdin: newPlainJob("torchrun, --nnodes=2") +
				"---\nkind: Service\napiVersion: v1\nmetadata: {name: hosts}\n" +
				"spec: {clusterIP: None, selector: {job-name: train}}\n",
			stdout: []string{"rollcall.training/framework: pytorch"},
			not:    []string{"subdomain", "kind: Service"},
			stderr: []string{"Job train (standard input, document 1) -> job.batch/train",
				"Service hosts (standard input, document 2): left out, because Rollcall creates the headless Service of the gang"},
		},
		"a Job that is not a gang is printed unchanged": {
			stdin:  newPlainJob("python"),
			stdout: []string{newPlainJob("python")},
			stderr: []string{"Job train (standard input, document 1): not a gang: no variable or command implies a framework"},
		},
		"a gang that cannot train sets the exit code": {
			stdin:    newPlainJob("torchrun, --nnodes=3"),
			wantCode: exitDropped,
			stdout:   []string{"kind: Job"},
			stderr:   []string{"LauncherFlagConflict job/train"},
			wantErr:  "all objects were migrated; fields dropped: 0, findings that prevent training: 1",
		},
		"the workers of MPI are a Job on request": {
			args: []string{"--jobs-only", "-v"},
			stdin: "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: sim}\nspec: {mpiReplicaSpecs: {" +
				"Launcher: {template: {spec: {containers: [{name: a, image: x, command: [mpirun, ./a]}]}}}, " +
				"Worker: {replicas: 2, template: {spec: {containers: [{name: a, image: x}]}}}}}\n",
			stderr: []string{"-> job.batch/sim-worker instead of a StatefulSet: --jobs-only is set\n"},
		},
		"a missing file is an error": {
			args:     []string{"-f", "no-such-file.yaml"},
			wantCode: exitNotMigrated,
			noOutput: true,
		},
		"files and a cluster are mutually exclusive": {
			args:     []string{"--from-cluster"},
			wantCode: exitNotMigrated,
			noOutput: true,
		},
		"an unsupported value of a flag is an error": {
			args:     []string{"--gang-scheduler", "slurm"},
			wantCode: exitNotMigrated,
			noOutput: true,
		},
		"an unknown flag is an error": {
			args:     []string{"--strict"},
			wantCode: exitNotMigrated,
			noOutput: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"migrate"}, c.args...)
			if !slices.Contains(args, "-f") {
				args = append(args, "-f", "-")
			}
			stdout, stderr, err := runCommand(t, c.stdin, args...)
			gotCode := 0
			var e exitError
			if errors.As(err, &e) {
				gotCode = e.code
			} else if err != nil {
				t.Fatalf("error %v is not an exitError", err)
			}
			if gotCode != c.wantCode {
				t.Errorf("exit code %d, want %d; error %v\n%s", gotCode, c.wantCode, err, stderr)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("standard output does not contain %q:\n%s", want, stdout)
				}
			}
			for _, not := range c.not {
				if strings.Contains(stdout, not) {
					t.Errorf("standard output contains %q:\n%s", not, stdout)
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("standard error does not contain %q:\n%s", want, stderr)
				}
			}
			if c.wantErr != "" && err.Error() != c.wantErr {
				t.Errorf("error %q, want %q", err, c.wantErr)
			}
			if c.notErr != "" && strings.Contains(stderr, c.notErr) {
				t.Errorf("standard error contains %q:\n%s", c.notErr, stderr)
			}
			if c.noOutput && stdout != "" {
				t.Errorf("unexpected standard output:\n%s", stdout)
			}
		})
	}
}

// TestMigrateJSON checks that manifests and report are JSON.
func TestMigrateJSON(t *testing.T) {
	stdout, stderr, err := runCommand(t, newPyTorchJob("train", "backoffLimit: 2"), "migrate", "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var obj struct{ Kind string }
	if err := json.Unmarshal([]byte(stdout), &obj); err != nil || obj.Kind != "Job" {
		t.Errorf("error %v and kind %q, want a Job:\n%s", err, obj.Kind, stdout)
	}
	var reports []migrate.Report
	err = json.Unmarshal([]byte(stderr), &reports)
	if err != nil || len(reports) != 1 || reports[0].Count(source.Changed) == 0 {
		t.Errorf("error %v, want one report with a changed field:\n%s", err, stderr)
	}
}

// TestMigratePipe checks that the output for a directory can be injected without changes.
func TestMigratePipe(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(path, []byte(newPyTorchJob("train-"+name, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := runCommand(t, "", "migrate", "-f", dir)
	if err != nil {
		t.Fatal(err)
	}
	injected, stderr, err := runCommand(t, stdout, "inject", "-f", "-")
	if err != nil || stderr != "" {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, want := range []string{
		"train-a-0.train-a.default.svc.cluster.local",
		"train-b-0.train-b.default.svc.cluster.local",
	} {
		if !strings.Contains(injected, want) {
			t.Errorf("the injected manifest does not contain %q:\n%s", want, injected)
		}
	}
}

// TestMigrateJSONFails checks that standard error contains nothing but JSON if documents are invalid.
func TestMigrateJSONFails(t *testing.T) {
	stdin := "kind: [\n---\n" + newPyTorchJob("bad", "backoffLimit: many")
	_, stderr, err := runCommand(t, stdin, "migrate", "-f", "-", "-o", "json")
	var e exitError
	if !errors.As(err, &e) || e.code != exitNotMigrated || e.Error() != "" {
		t.Errorf("error %#v, want an exitError with code %d and no text", err, exitNotMigrated)
	}
	var reports []migrate.Report
	if err := json.Unmarshal([]byte(stderr), &reports); err != nil {
		t.Fatalf("decoding standard error: %v\n%s", err, stderr)
	}
	if len(reports) != 2 || !reports[0].Failed() || !reports[1].Failed() {
		t.Errorf("want two failed reports:\n%s", stderr)
	}
}
