package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/injectors/conformance"
	"rollcall.training/vet"
)

// quiet is a Job about which there is nothing to say.
const quiet = `apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {rollcall.training/framework: pytorch}
  annotations: {rollcall.training/restart-policy: never}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: trainer
          image: registry.example.com/train:1
          resources: {limits: {memory: 1Gi}}
`

var (
	advised = strings.Replace(quiet, "train:1", "train", 1)
	warned  = strings.Replace(quiet, "restart-policy", "restartpolicy", 1) // and advised
	denied  = strings.Replace(quiet, "pytorch", "torch", 1)
)

func TestVetExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		stdin  string
		args   []string
		want   int
		said   string // part of the error
	}{
		"nothing":               {reason: "all is well", stdin: quiet},
		"advice":                {reason: "errors alone count by default", stdin: advised},
		"warning":               {reason: "errors alone count by default", stdin: warned},
		"error":                 {reason: "it would be refused", stdin: denied, want: 1},
		"advice counts":         {reason: "the threshold is advice", stdin: advised, args: []string{"--fail-on", "advice"}, want: 1},
		"warning counts":        {reason: "it is worse than advice", stdin: warned, args: []string{"--fail-on", "advice"}, want: 1},
		"advice is no warning":  {reason: "the threshold is a warning", stdin: advised, args: []string{"--fail-on", "warning"}},
		"never":                 {reason: "for those who only read", stdin: denied, args: []string{"--fail-on", "never"}},
		"disabled":              {reason: "a check that is left out counts for nothing", stdin: denied, args: []string{"--disable", "denied"}},
		"broken":                {reason: "a document cannot be read", stdin: "a: [\n---\n" + quiet, want: 2, said: "1 document cannot be read"},
		"broken, never":         {reason: "bad input is no finding that one may ignore", stdin: "a: [\n", args: []string{"--fail-on", "never", "--disable", "Unreadable"}, want: 2, said: "cannot be read"},
		"threshold unknown":     {reason: "the known ones are named", stdin: quiet, args: []string{"--fail-on", "fatal"}, want: 2, said: "error, warning, advice or never"},
		"code unknown":          {reason: "a misspelt code would disable nothing", stdin: quiet, args: []string{"--disable", "Imags"}, want: 2, said: "--list"},
		"format unknown":        {reason: "the known ones are named", stdin: quiet, args: []string{"-o", "yaml"}, want: 2, said: "text, json or sarif"},
		"version unknown":       {reason: "the form is named", stdin: quiet, args: []string{"--kubernetes-version", "new"}, want: 2, said: "1.37"},
		"flag unknown":          {reason: "a mistake in the command", stdin: quiet, args: []string{"--strict"}, want: 2, said: "--strict"},
		"no such file":          {reason: "the file is named", args: []string{"-f", "missing.yaml"}, want: 2, said: "missing.yaml"},
		"files without -f":      {reason: "a mistake in the command", args: []string{"missing.yaml"}, want: 2, said: "missing.yaml"},
		"explain what is not":   {reason: "a mistake in the command", args: []string{"--explain", "Nothing"}, want: 2, said: "Nothing"},
		"list and explain":      {reason: "a mistake in the command", stdin: quiet, args: []string{"--list"}, want: 2, said: "use one"},
		"an older Kubernetes":   {reason: "it is read as inject does", stdin: quiet, args: []string{"--kubernetes-version", "1.34"}},
		"an empty standard in":  {reason: "nothing to say of nothing"},
		"a Job that is no gang": {reason: "what is not ours is not judged", stdin: strings.Replace(quiet, "labels: {rollcall.training/framework: pytorch}\n  annotations: {rollcall.training/restart-policy: never}", "labels: {app: a}", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"vet"}
			if !strings.Contains(strings.Join(c.args, " "), "missing") && !strings.Contains(strings.Join(c.args, " "), "--explain") {
				args = append(args, "-f", "-")
			}
			_, _, err := run(t, c.stdin, append(args, c.args...)...)
			got := 0
			if err != nil {
				got = exitCode(err)
			}
			if got != c.want {
				t.Errorf("%s: exit code %d (%v), want %d", c.reason, got, err, c.want)
			}
			if c.said != "" && (err == nil || !strings.Contains(err.Error(), c.said)) {
				t.Errorf("%s: error %v, want one with %q", c.reason, err, c.said)
			}
			if c.want == 1 && err != nil && err.Error() != "" {
				t.Errorf("%s: the findings are on the screen, and the error says %q", c.reason, err)
			}
		})
	}
}

func TestVetWithoutFiles(t *testing.T) {
	_, _, err := run(t, "", "vet")
	if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "--filename") {
		t.Errorf("error %v, want one that names the flag", err)
	}
	if exitCode(errors.New("any other")) != 1 {
		t.Error("the exit code of other commands is not 1")
	}
}

func TestVetText(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		stdin  string
		want   string
	}{
		"nothing": {reason: "no noise when all is well", stdin: quiet, want: "1 workload, nothing to say\n"},
		"findings": {
			reason: "those about one object are together, the worst first",
			stdin:  "a: [\n---\n" + strings.Replace(denied, "name: train\n", "name: train\n  namespace: team\n", 1) + "---\n" + advised,
			want: `standard input: document 1
  error    Unreadable  line 1
           did not find expected node content

standard input: job/train in team
  error    Denied  line 8, metadata.labels[rollcall.training/framework]
           Unsupported value: "torch": supported values: "pytorch", "tensorflow", "mpi", "horovod", "jax", "xgboost", "lightgbm", "paddle", "deepspeed"; did you mean "pytorch"?

standard input: job/train
  advice   FloatingImage  line 35, spec.template.spec.containers[0].image
           registry.example.com/train can mean another program on each node
           fix: name a tag that does not move, or a digest

2 workloads: 2 errors, 0 warnings, 1 advice; rollcall vet --explain CODE tells more
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, _ := run(t, c.stdin, "vet", "-f", "-")
			if diff := cmp.Diff(c.want, stdout); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestVetJSON(t *testing.T) {
	stdout, _, err := run(t, advised, "vet", "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "workloads": 1,
  "errors": 0,
  "warnings": 0,
  "advice": 1,
  "findings": [
    {
      "code": "FloatingImage",
      "severity": "advice",
      "source": "standard input",
      "document": 1,
      "line": 15,
      "object": "job/train",
      "namespace": "default",
      "field": "spec.template.spec.containers[0].image",
      "message": "registry.example.com/train can mean another program on each node",
      "fix": "name a tag that does not move, or a digest"
    }
  ]
}
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stdout, _, _ = run(t, quiet, "vet", "-f", "-", "-o", "json")
	if !strings.Contains(stdout, `"findings": []`) {
		t.Errorf("no findings are no list:\n%s", stdout)
	}
}

func TestVetChecks(t *testing.T) {
	list, _, err := run(t, "", "vet", "--list")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range vet.Checks() {
		if !strings.Contains(list, string(c.Code)+" ") {
			t.Errorf("%s is not listed", c.Code)
		}
		text, _, err := run(t, "", "vet", "--explain", strings.ToLower(string(c.Code)))
		if err != nil || !strings.Contains(text, c.Why) {
			t.Errorf("%s is not explained: %v\n%s", c.Code, err, text)
		}
	}
}

// TestVetSaysWhatInjectSays: the webhook's warnings and denials, which the golden files
// hold inject to, word for word.
func TestVetSaysWhatInjectSays(t *testing.T) {
	for _, c := range conformance.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			var want, got []string
			_, stderr, _ := run(t, string(c.Manifest), "inject", "-f", "-")
			for line := range strings.Lines(stderr) {
				kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				if _, text, ok := strings.Cut(rest, "): "); ok && kind != "note" {
					want = append(want, kind+" "+text)
				}
			}
			stdout, _, _ := run(t, string(c.Manifest), "vet", "-f", "-", "-o", "json")
			var report struct{ Findings []vet.Finding }
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatalf("%v in\n%s", err, stdout)
			}
			for _, f := range report.Findings {
				if f.Code == vet.CodeDenied || f.Code == vet.CodeAdmissionWarning {
					got = append(got, string(f.Severity)+" "+f.Field+": "+f.Message)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-inject +vet):\n%s", diff)
			}
		})
	}
}

// TestVetOfInjected: a manifest that is injected already, its Service beside it, is found
// fault with for nothing else than before.
func TestVetOfInjected(t *testing.T) {
	codes := func(manifest string) map[vet.Code]bool {
		stdout, _, _ := run(t, manifest, "vet", "-f", "-", "-o", "json")
		var report struct{ Findings []vet.Finding }
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatalf("%v in\n%s", err, stdout)
		}
		out := map[vet.Code]bool{}
		for _, f := range report.Findings {
			if f.Code != vet.CodeAdmissionWarning { // which speaks of what was overridden
				out[f.Code] = true
			}
		}
		return out
	}
	for _, c := range conformance.Cases(t) {
		injected, _, err := run(t, string(c.Manifest), "inject", "-f", "-")
		if err != nil {
			continue // denied
		}
		t.Run(c.Name, func(t *testing.T) {
			before := codes(string(c.Manifest))
			for code := range codes(injected) {
				if !before[code] {
					t.Errorf("%s is said of the injected manifest alone", code)
				}
			}
		})
	}
}

func TestVetDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": quiet, "b.yaml": "a: [\n", "c.yml": advised, "README.md": "no manifest"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := run(t, "", "vet", "-f", dir)
	if exitCode(err) != 2 {
		t.Errorf("error %v, want one of bad input", err)
	}
	for _, want := range []string{"b.yaml: document 1", "c.yml: job/train", "2 workloads"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if _, _, err := run(t, "", "vet", "-f", filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one about the file", err)
	}
}
