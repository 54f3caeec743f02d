package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/injectors/conformance"
)

// run executes the command line with the given standard input.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.Execute()
	return out.String(), errs.String(), err
}

func TestGoldens(t *testing.T) {
	conformance.Goldens(t, func(t *testing.T, manifest []byte) conformance.Outcome {
		stdout, stderr, err := run(t, string(manifest), "inject", "-f", "-", "--children=false")
		out := conformance.Outcome{Object: []byte(stdout)}
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
			t.Errorf("error %v with denials %q", err, out.Denials)
		}
		if err != nil && stdout != "" {
			t.Errorf("a denied manifest was printed:\n%s", stdout)
		}
		// As the other front ends see it.
		if w := conformance.Workload(t, manifest); err == nil && w.Meta().Namespace == "" {
			out.Object = setNamespace(t, out.Object)
		}
		return out
	})
}

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

const labelledJob = `apiVersion: batch/v1
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

const configMap = `# a comment
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}   # another
data: {a: "1"}
`

func TestManifests(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		stdin  string
		args   []string
		want   []string // parts of the output, in order
		not    []string // no parts of it
	}{
		"unlabelled documents": {
			reason: "what is not ours comes out as it went in",
			stdin:  configMap + "---\n" + configMap,
			want:   []string{configMap + "---\n" + configMap},
		},
		"several documents": {
			reason: "order is kept, and the Service comes last",
			stdin:  configMap + "---\n" + labelledJob,
			want:   []string{"# a comment", "---\n", "name: MASTER_ADDR", "---\n", "kind: Service"},
		},
		"unknown fields": {
			reason: "a field newer than this build is the user's all the same",
			stdin:  labelledJob,
			want:   []string{"futureField: kept", "futureField: kept"},
		},
		"list": {
			reason: "items are injected where they are, and the list stays a list",
			stdin:  "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(labelledJob), "\n", "\n  ") + "\n",
			want:   []string{"kind: Job", "MASTER_ADDR", "kind: List", "kind: Service"},
		},
		"JSON": {
			reason: "kubectl get -o json is input too",
			stdin:  toJSON(labelledJob),
			want:   []string{"name: MASTER_ADDR"},
		},
		"JSON objects in a row": {
			reason: "kubectl reads them, so do we",
			stdin:  toJSON(configMap) + toJSON(labelledJob),
			want:   []string{"kind: ConfigMap", "---\n", "name: MASTER_ADDR"},
		},
		"JSON out": {
			reason: "for jq and its like",
			stdin:  labelledJob,
			args:   []string{"-o", "json"},
			want:   []string{`"name": "MASTER_ADDR"`, `"kind": "Service"`},
		},
		"no children": {
			reason: "a Service would be in the way of a diff against the workload alone",
			stdin:  labelledJob,
			args:   []string{"--children=false"},
			want:   []string{"MASTER_ADDR"},
			not:    []string{"kind: Service"},
		},
		"namespace and domain": {
			reason: "addresses are complete",
			stdin:  labelledJob,
			args:   []string{"-n", "team", "--cluster-domain", "corp.example"},
			want:   []string{"train-0.train.team.svc.corp.example"},
		},
		"list of lists": {
			reason: "kubectl flattens them, we go down",
			stdin:  `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + strings.TrimSpace(toJSON(labelledJob)) + `]}]}`,
			want:   []string{"name: MASTER_ADDR", "kind: Service"},
		},
		"JobList": {
			reason: "its items need not say what they are",
			stdin:  `{"apiVersion":"batch/v1","kind":"JobList","items":[` + strings.Replace(strings.TrimSpace(toJSON(labelledJob)), `"apiVersion":"batch/v1","kind":"Job",`, "", 1) + `]}`,
			want:   []string{"name: MASTER_ADDR"},
		},
		"YAML in flow style": {
			reason: "a brace does not make it JSON",
			stdin:  "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n" + labelledJob,
			want:   []string{"{apiVersion: v1, kind: ConfigMap", "name: MASTER_ADDR"},
		},
		"unlabelled and odd": {
			reason: "what is not ours need not be what our types expect",
			stdin:  "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: {a: 1}}\n---\napiVersion: example.com/v1\nkind: Thing\nitems: {a: 1}\n",
			want:   []string{"annotations: {a: 1}", "items: {a: 1}"},
		},
		"one name in two namespaces": {
			reason: "each gang has its Service beside it",
			stdin:  strings.Replace(labelledJob, "name: train\n", "name: train\n  namespace: a\n", 1) + "---\n" + strings.Replace(labelledJob, "name: train\n", "name: train\n  namespace: b\n", 1),
			want:   []string{"kind: Service", "namespace: a", "kind: Service", "namespace: b"},
		},
		"no phase": {
			reason: "a manifest that is kept and applied again would set the phase back",
			stdin:  labelledJob,
			want:   []string{"kind: Job"},
			not:    []string{"rollcall.training/phase", "namespace:"},
		},
		"comments alone": {
			reason: "a document without content is no error",
			stdin:  "# nothing here\n",
			want:   []string{"# nothing here"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := run(t, c.stdin, append([]string{"inject", "-f", "-"}, c.args...)...)
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			rest := stdout
			for _, w := range c.want {
				var ok bool
				if _, rest, ok = strings.Cut(rest, w); !ok {
					t.Errorf("%s: %q is missing, or out of order, in\n%s", c.reason, w, stdout)
					break
				}
			}
			for _, n := range c.not {
				if strings.Contains(stdout, n) {
					t.Errorf("%s: %q is in\n%s", c.reason, n, stdout)
				}
			}
		})
	}
}

func toJSON(manifest string) string {
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		panic(err) // the manifests are constants
	}
	return string(text) + "\n"
}

func TestAgain(t *testing.T) {
	once, _, err := run(t, labelledJob, "inject", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	twice, _, err := run(t, once, "inject", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(once, twice); diff != "" {
		t.Errorf("an injected manifest was injected again (-once +twice):\n%s", diff)
	}
}

func TestUnusableInput(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		stdin  string
		args   []string
		want   string
	}{
		"broken YAML":       {reason: "the line is named", stdin: "a: [1\nb: 2\n", want: "line"},
		"duplicate key":     {reason: "the last of two would win in silence", stdin: "kind: Job\nkind: Job\n", want: `key "kind" already set`},
		"broken JSON":       {reason: "the place is named", stdin: `{"kind": `, want: "document 1"},
		"key twice in JSON": {reason: "as in YAML", stdin: `{"kind": "Job", "kind": "Job"}`, want: `duplicate field "kind"`},
		"wrong type":        {reason: "the field is named", stdin: strings.Replace(labelledJob, "parallelism: 2", "parallelism: two", 1), want: "spec.parallelism"},
		"unknown format":    {reason: "the known ones are named", stdin: labelledJob, args: []string{"-o", "toml"}, want: "yaml or json"},
		"no such file":      {reason: "the name is named", args: []string{"-f", "missing.yaml"}, want: "missing.yaml"},
		"one of two denied": {
			reason: "all or nothing: half of a manifest must not reach kubectl apply",
			stdin:  labelledJob + "---\n" + strings.Replace(labelledJob, "pytorch", "torch", 1),
			want:   "nothing was printed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := run(t, c.stdin, append([]string{"inject", "-f", "-"}, c.args...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want one with %q", c.reason, err, c.want)
			}
			if stdout != "" {
				t.Errorf("%s: printed\n%s", c.reason, stdout)
			}
		})
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": labelledJob, "b.json": toJSON(configMap), "README.md": "no manifest"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := run(t, "", "inject", "-f", dir, "-o", "json")
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
	if _, _, err := run(t, "", "inject", "-f", t.TempDir()); err == nil {
		t.Error("a directory without manifests gave no error")
	}
}

func TestFrameworks(t *testing.T) {
	stdout, _, err := run(t, "", "frameworks")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout, "pytorch") || !strings.Contains(stdout, "23456") {
		t.Errorf("the list lacks pytorch and its port:\n%s", stdout)
	}
}
