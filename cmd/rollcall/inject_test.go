package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/internal/testing/golden"
)

// runCommand runs the command line with the given standard input and arguments.
func runCommand(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRootCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = executeCommand(cmd)
	return out.String(), errs.String(), err
}

func TestGoldens(t *testing.T) {
	golden.Run(t, func(t *testing.T, manifest []byte) golden.Result {
		stdout, stderr, err := runCommand(t, string(manifest), "inject", "-f", "-", "--children=false")
		out := golden.Result{Object: []byte(stdout)}
		for line := range strings.Lines(stderr) {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "): ")
			switch {
			case strings.HasPrefix(line, "warning: "):
				out.Warnings = append(out.Warnings, text)
			case strings.HasPrefix(line, "error: "):
				out.Denials = append(out.Denials, text)
			}
		}
		if (err != nil) != (len(out.Denials) > 0) {
			t.Errorf("error %v with denials %q, want both or neither", err, out.Denials)
		}
		if err != nil && stdout != "" {
			t.Errorf("a denied manifest was printed:\n%s", stdout)
		}
		// The webhook, whose result this is compared with, always receives a namespace.
		if w := golden.ParseWorkload(t, manifest); err == nil && w.Meta().Namespace == "" {
			out.Object = setNamespace(t, out.Object)
		}
		return out
	})
}

// setNamespace sets the namespace default.
func setNamespace(t *testing.T, manifest []byte) []byte {
	t.Helper()
	var obj map[string]any
	if err := yaml.Unmarshal(manifest, &obj); err != nil {
		t.Fatal(err)
	}
	obj["metadata"].(map[string]any)["namespace"] = "default"
	out, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const labeledJob = `apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {rollcall.training/framework: pytorch}
spec:
  parallelism: 2
  completions: 2
  futureField: kept
  template:
    spec:
      containers: [{name: trainer, futureField: kept}]
`

const configMapManifest = `# a comment
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}   # another
data: {a: "1"}
`

// inNamespace returns the manifest labeledJob with a namespace.
func inNamespace(namespace string) string {
	return strings.Replace(labeledJob, "name: train\n", "name: train\n  namespace: "+namespace+"\n", 1)
}

func TestInjectManifests(t *testing.T) {
	jsonJob := strings.TrimSpace(toJSON(labeledJob))
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  []string // parts of the output, in order
		not   []string // absent from the output
	}{
		"documents without the label are unchanged": {
			stdin: configMapManifest + "---\n" + configMapManifest,
			want:  []string{configMapManifest + "---\n" + configMapManifest},
		},
		"documents keep their order and the Service is last": {
			stdin: configMapManifest + "---\n" + labeledJob,
			want:  []string{"# a comment", "---\n", "name: MASTER_ADDR", "---\n", "kind: Service"},
		},
		"fields that this build does not know are kept": {
			stdin: labeledJob,
			want:  []string{"futureField: kept", "futureField: kept"},
		},
		"items of a list are injected within the list": {
			stdin: "apiVersion: v1\nkind: List\nitems:\n- " +
				strings.ReplaceAll(strings.TrimSpace(labeledJob), "\n", "\n  ") + "\n",
			want: []string{"kind: Job", "MASTER_ADDR", "kind: List", "kind: Service"},
		},
		"JSON is accepted": {
			stdin: toJSON(labeledJob),
			want:  []string{"name: MASTER_ADDR"},
		},
		"consecutive JSON objects are accepted": {
			stdin: toJSON(configMapManifest) + toJSON(labeledJob),
			want:  []string{"kind: ConfigMap", "---\n", "name: MASTER_ADDR"},
		},
		"JSON is printed on request": {
			stdin: labeledJob,
			args:  []string{"-o", "json"},
			want:  []string{`"name": "MASTER_ADDR"`, `"kind": "Service"`},
		},
		"the Service is omitted on request": {
			stdin: labeledJob,
			args:  []string{"--children=false"},
			want:  []string{"MASTER_ADDR"},
			not:   []string{"kind: Service"},
		},
		"addresses contain namespace and cluster domain": {
			stdin: labeledJob,
			args:  []string{"-n", "team", "--cluster-domain", "corp.example"},
			want:  []string{"train-0.train.team.svc.corp.example"},
		},
		"items of nested lists are injected": {
			stdin: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + jsonJob + `]}]}`,
			want:  []string{"name: MASTER_ADDR", "kind: Service"},
		},
		"items of a JobList need no type": {
			stdin: `{"apiVersion":"batch/v1","kind":"JobList","items":[` +
				strings.Replace(jsonJob, `"apiVersion":"batch/v1","kind":"Job",`, "", 1) + `]}`,
			want: []string{"name: MASTER_ADDR"},
		},
		"a brace at the start does not make YAML JSON": {
			stdin: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n" + labeledJob,
			want:  []string{"{apiVersion: v1, kind: ConfigMap", "name: MASTER_ADDR"},
		},
		"documents without the label are not decoded": {
			stdin: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: {a: 1}}\n---\n" +
				"apiVersion: example.com/v1\nkind: Thing\nitems: {a: 1}\n",
			want: []string{"annotations: {a: 1}", "items: {a: 1}"},
		},
		"gangs of the same name in two namespaces have two Services": {
			stdin: inNamespace("a") + "---\n" + inNamespace("b"),
			want:  []string{"kind: Service", "namespace: a", "kind: Service", "namespace: b"},
		},
		"the output has no phase because a second apply would reset the phase": {
			stdin: labeledJob,
			want:  []string{"kind: Job"},
			not:   []string{"rollcall.training/phase", "namespace:"},
		},
		"a document with only comments is kept": {
			stdin: "# nothing here\n",
			want:  []string{"# nothing here"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := runCommand(t, c.stdin, append([]string{"inject", "-f", "-"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			checkOrder(t, stdout, c.want)
			for _, not := range c.not {
				if strings.Contains(stdout, not) {
					t.Errorf("output contains %q:\n%s", not, stdout)
				}
			}
		})
	}
}

// checkOrder reports an error if the text does not contain all parts in the given order.
func checkOrder(t *testing.T, text string, parts []string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		var found bool
		if _, rest, found = strings.Cut(rest, part); !found {
			t.Errorf("%q is missing or out of order in:\n%s", part, text)
			return
		}
	}
}

// toJSON converts a manifest to one line of JSON.
func toJSON(manifest string) string {
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		panic(err) // the manifests are constants
	}
	return string(text) + "\n"
}

func TestInjectTwice(t *testing.T) {
	once, _, err := runCommand(t, labeledJob, "inject", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	twice, _, err := runCommand(t, once, "inject", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(once, twice); diff != "" {
		t.Errorf("the second injection changed the manifest (-once +twice):\n%s", diff)
	}
}

func TestInjectInvalidInput(t *testing.T) {
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  string // part of the error
	}{
		"invalid YAML is reported with its line": {
			stdin: "a: [1\nb: 2\n",
			want:  "line",
		},
		"a duplicate key is an error": {
			stdin: "kind: Job\nkind: Job\n",
			want:  `key "kind" already set`,
		},
		"invalid JSON is reported with its document": {
			stdin: `{"kind": `,
			want:  "document 1",
		},
		"a duplicate key in JSON is an error": {
			stdin: `{"kind": "Job", "kind": "Job"}`,
			want:  `duplicate field "kind"`,
		},
		"a value of the wrong type is reported with its field": {
			stdin: strings.Replace(labeledJob, "parallelism: 2", "parallelism: two", 1),
			want:  "spec.parallelism",
		},
		"an unsupported format is reported with the supported ones": {
			stdin: labeledJob,
			args:  []string{"-o", "toml"},
			want:  "yaml or json",
		},
		"a missing file is reported with its name": {
			args: []string{"-f", "missing.yaml"},
			want: "missing.yaml",
		},
		"a variable of envsubst is reported as a template": {
			stdin: strings.Replace(labeledJob, "parallelism: 2", "parallelism: $NUM_NODES", 1),
			want:  "variables such as $NUM_NODES; substitute them first",
		},
		"nothing is printed if one of two workloads is denied": {
			stdin: labeledJob + "---\n" + strings.Replace(labeledJob, "pytorch", "torch", 1),
			want:  "denied 1 workload; nothing was printed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := runCommand(t, c.stdin, append([]string{"inject", "-f", "-"}, c.args...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want an error that contains %q", err, c.want)
			}
			if stdout != "" {
				t.Errorf("unexpected output:\n%s", stdout)
			}
		})
	}
}

func TestInjectDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":    labeledJob,
		"b.json":    toJSON(configMapManifest),
		"README.md": "no manifest",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := runCommand(t, "", "inject", "-f", dir, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	dec := json.NewDecoder(strings.NewReader(stdout))
	for dec.More() {
		var obj struct{ Kind string }
		if err := dec.Decode(&obj); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, obj.Kind)
	}
	if diff := cmp.Diff([]string{"Job", "ConfigMap", "Service"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if _, _, err := runCommand(t, "", "inject", "-f", t.TempDir()); err == nil {
		t.Error("no error for a directory without manifests")
	}
}

// TestInjectCost verifies that the cost of an object does not depend on the number of objects.
// Allocated bytes are a measure of the cost that does not depend on the machine.
func TestInjectCost(t *testing.T) {
	newJobs := func(n int) []string {
		jobs := make([]string, n)
		for i := range jobs {
			name := fmt.Sprintf("name: train-%d\n", i)
			jobs[i] = strings.TrimSpace(toJSON(strings.Replace(labeledJob, "name: train\n", name, 1)))
		}
		return jobs
	}
	for name, join := range map[string]func(jobs []string) string{
		"documents": func(jobs []string) string { return strings.Join(jobs, "\n") },
		"items of a list": func(jobs []string) string {
			return `{"kind": "List", "apiVersion": "v1", "items": [` + strings.Join(jobs, ",") + "]}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			allocate := func(n int) float64 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, _, err := runCommand(t, join(newJobs(n)), "inject", "-f", "-"); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return float64(after.TotalAlloc - before.TotalAlloc)
			}
			const n, factor = 50, 6
			allocate(1) // initializes caches
			if ratio := allocate(factor*n) / allocate(n); ratio > 1.5*factor {
				t.Errorf("%d objects allocate %.1f times as much as %d objects, want about %d", factor*n, ratio, n, factor)
			}
		})
	}
}
