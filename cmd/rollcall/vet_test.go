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

	"rollcall.training/internal/testing/golden"
	"rollcall.training/internal/vet"
)

// cleanJob is a Job without findings.
const cleanJob = `apiVersion: batch/v1
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
	// infoJob has a finding of severity info.
	infoJob = strings.Replace(cleanJob, "train:1", "train", 1)
	// warningJob has findings of severity warning and info.
	warningJob = strings.Replace(cleanJob, "restart-policy", "restartpolicy", 1)
	// deniedJob has a finding of severity error.
	deniedJob = strings.Replace(cleanJob, "pytorch", "torch", 1)
	// unlabeledJob is not a gang.
	unlabeledJob = strings.Replace(cleanJob,
		"labels: {rollcall.training/framework: pytorch}\n  annotations: {rollcall.training/restart-policy: never}",
		"labels: {app: a}", 1)
)

func TestVetExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		stdin     string
		args      []string
		wantCode  int
		wantError string // part of the error
	}{
		"no findings": {stdin: cleanJob},
		"a required label is missing": {
			stdin:     unlabeledJob,
			args:      []string{"--require"},
			wantCode:  1,
			wantError: "no object has the label rollcall.training/framework; found 1 Job",
		},
		"a required label exists": {
			stdin: cleanJob,
			args:  []string{"--require"},
		},
		"info is below the default threshold": {
			stdin: infoJob,
		},
		"a warning is below the default threshold": {
			stdin: warningJob,
		},
		"an error reaches the default threshold": {
			stdin:    deniedJob,
			wantCode: 1,
		},
		"info reaches the threshold info": {
			stdin:    infoJob,
			args:     []string{"--fail-on", "info"},
			wantCode: 1,
		},
		"a warning reaches the threshold info": {
			stdin:    warningJob,
			args:     []string{"--fail-on", "info"},
			wantCode: 1,
		},
		"info is below the threshold warning": {
			stdin: infoJob,
			args:  []string{"--fail-on", "warning"},
		},
		"no severity reaches the threshold never": {
			stdin: deniedJob,
			args:  []string{"--fail-on", "never"},
		},
		"a disabled check has no findings": {
			stdin: deniedJob,
			args:  []string{"--disable", "denied"},
		},
		"a document that cannot be read is an error of the input": {
			stdin:     "a: [\n---\n" + cleanJob,
			wantCode:  2,
			wantError: "1 document could not be read",
		},
		"an error of the input cannot be disabled": {
			stdin:     "a: [\n",
			args:      []string{"--fail-on", "never", "--disable", "Unreadable"},
			wantCode:  2,
			wantError: "could not be read",
		},
		"an unknown threshold is reported with the supported ones": {
			stdin:     cleanJob,
			args:      []string{"--fail-on", "fatal"},
			wantCode:  2,
			wantError: "error, warning, info or never",
		},
		"an unknown code is an error because it would disable nothing": {
			stdin:     cleanJob,
			args:      []string{"--disable", "Imags"},
			wantCode:  2,
			wantError: "--list",
		},
		"an unknown format is reported with the supported ones": {
			stdin:     cleanJob,
			args:      []string{"-o", "yaml"},
			wantCode:  2,
			wantError: "text, json or sarif",
		},
		"an invalid version is reported with a valid one": {
			stdin:     cleanJob,
			args:      []string{"--kubernetes-version", "new"},
			wantCode:  2,
			wantError: "1.37",
		},
		"an unknown flag is an error of the command": {
			stdin:     cleanJob,
			args:      []string{"--strict"},
			wantCode:  2,
			wantError: "--strict",
		},
		"a missing file is reported with its name": {
			args:      []string{"-f", "missing.yaml"},
			wantCode:  2,
			wantError: "missing.yaml",
		},
		"an argument is an error of the command": {
			args:      []string{"missing.yaml"},
			wantCode:  2,
			wantError: "missing.yaml",
		},
		"an unknown code cannot be explained": {
			args:      []string{"--explain", "Nothing"},
			wantCode:  2,
			wantError: "Nothing",
		},
		"files and a list of checks are mutually exclusive": {
			stdin:     cleanJob,
			args:      []string{"--list"},
			wantCode:  2,
			wantError: "use one",
		},
		"an older version of Kubernetes is supported": {
			stdin: cleanJob,
			args:  []string{"--kubernetes-version", "1.34"},
		},
		"empty input has no findings": {},
		"a Job without the label has no findings": {
			stdin: unlabeledJob,
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"vet"}
			joined := strings.Join(c.args, " ")
			if !strings.Contains(joined, "missing") && !strings.Contains(joined, "--explain") {
				args = append(args, "-f", "-")
			}
			_, _, err := runCommand(t, c.stdin, append(args, c.args...)...)
			gotCode := 0
			if err != nil {
				gotCode = exitCode(err)
			}
			if gotCode != c.wantCode {
				t.Errorf("exit code %d (%v), want %d", gotCode, err, c.wantCode)
			}
			if c.wantError != "" && (err == nil || !strings.Contains(err.Error(), c.wantError)) {
				t.Errorf("error %v, want an error that contains %q", err, c.wantError)
			}
			if c.wantCode == 1 && c.wantError == "" && err != nil && err.Error() != "" {
				t.Errorf("error %q, want an empty text because the findings are printed", err)
			}
		})
	}
}

func TestVetWithoutFiles(t *testing.T) {
	_, _, err := runCommand(t, "", "vet")
	if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "--filename") {
		t.Errorf("error %v, want exit code 2 and a text that contains the flag", err)
	}
	if got := exitCode(errors.New("any other")); got != 1 {
		t.Errorf("exit code %d of an error without an exit code, want 1", got)
	}
}

func TestVetText(t *testing.T) {
	deniedInNamespace := strings.Replace(deniedJob, "name: train\n", "name: train\n  namespace: team\n", 1)
	for name, c := range map[string]struct {
		stdin string
		want  string
	}{
		"a report without findings is one line": {
			stdin: cleanJob,
			want:  "1 workload, no findings\n",
		},
		"an input without labeled workloads is described": {
			stdin: unlabeledJob,
			want:  "no object has the label rollcall.training/framework; found 1 Job\n",
		},
		"findings of one object share a heading": {
			stdin: "a: [\n---\n" + deniedInNamespace + "---\n" + infoJob,
			want: `standard input: document 1
  error    Unreadable  line 1
           did not find expected node content

standard input: job/train in team
  error    Denied  line 8, metadata.labels[rollcall.training/framework]
           Unsupported value: "torch": supported values: "pytorch", "tensorflow", "mpi", "horovod", "jax", "xgboost", "lightgbm", "paddle", "deepspeed", "generic"; did you mean "pytorch"?

standard input: job/train
  info     MutableImageTag  line 35, spec.template.spec.containers[0].image
           registry.example.com/train has no fixed tag, so nodes can run different versions of the image
           fix: use an immutable tag or a digest

2 workloads: 2 errors, 0 warnings, 1 info; run rollcall vet --explain CODE for details
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, _ := runCommand(t, c.stdin, "vet", "-f", "-")
			if diff := cmp.Diff(c.want, stdout); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVetJSON(t *testing.T) {
	stdout, _, err := runCommand(t, infoJob, "vet", "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "workloads": 1,
  "errors": 0,
  "warnings": 0,
  "infos": 1,
  "findings": [
    {
      "code": "MutableImageTag",
      "severity": "info",
      "source": "standard input",
      "document": 1,
      "line": 15,
      "object": "job/train",
      "namespace": "default",
      "field": "spec.template.spec.containers[0].image",
      "message": "registry.example.com/train has no fixed tag, so nodes can run different versions of the image",
      "fix": "use an immutable tag or a digest"
    }
  ]
}
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	stdout, _, _ = runCommand(t, cleanJob, "vet", "-f", "-", "-o", "json")
	if !strings.Contains(stdout, `"findings": []`) {
		t.Errorf("findings are not an empty list:\n%s", stdout)
	}
}

func TestVetChecks(t *testing.T) {
	list, _, err := runCommand(t, "", "vet", "--list")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range vet.Checks() {
		if !strings.Contains(list, string(c.Code)+" ") {
			t.Errorf("the list does not contain %s", c.Code)
		}
		text, _, err := runCommand(t, "", "vet", "--explain", strings.ToLower(string(c.Code)))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(text), " "), c.Why) {
			t.Errorf("explanation of %s: error %v\n%s", c.Code, err, text)
		}
	}
}

// TestVetMatchesInject checks that vet reports the warnings and denials of the webhook with the same
// texts. The golden files compare the texts of inject with those of the webhook.
func TestVetMatchesInject(t *testing.T) {
	for _, c := range golden.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			var want, got []string
			_, stderr, _ := runCommand(t, string(c.Manifest), "inject", "-f", "-")
			for line := range strings.Lines(stderr) {
				kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				_, text, ok := strings.Cut(rest, "): ")
				if ok && kind != "note" {
					want = append(want, kind+" "+text)
				}
			}
			stdout, _, _ := runCommand(t, string(c.Manifest), "vet", "-f", "-", "-o", "json")
			var report struct{ Findings []vet.Finding }
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatalf("decoding findings: %v\n%s", err, stdout)
			}
			for _, f := range report.Findings {
				switch f.Code {
				case vet.CodeDenied, "AdmissionWarning":
					got = append(got, string(f.Severity)+" "+f.Field+": "+f.Message)
				case vet.CodeWrongTrainingContainer, "TrainingContainerFound": // Warnings of the webhook.
					got = append(got, "warning "+f.Field+": "+f.Message)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("findings (-inject +vet):\n%s", diff)
			}
		})
	}
}

// vetCodes returns the codes of the findings about a manifest. It omits warnings of admission, because
// they report values that admission overrides.
func vetCodes(t *testing.T, manifest string) map[vet.Code]bool {
	t.Helper()
	stdout, _, _ := runCommand(t, manifest, "vet", "-f", "-", "-o", "json")
	var report struct{ Findings []vet.Finding }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("decoding findings: %v\n%s", err, stdout)
	}
	codes := map[vet.Code]bool{}
	for _, f := range report.Findings {
		if f.Code != "AdmissionWarning" && f.Code != "DefaultOverridden" {
			codes[f.Code] = true
		}
	}
	return codes
}

// TestVetInjectedManifest checks that the output of inject has no findings that its input does not
// have.
func TestVetInjectedManifest(t *testing.T) {
	for _, c := range golden.Cases(t) {
		injected, _, err := runCommand(t, string(c.Manifest), "inject", "-f", "-")
		if err != nil {
			continue // the workload is denied
		}
		t.Run(c.Name, func(t *testing.T) {
			before := vetCodes(t, string(c.Manifest))
			for code := range vetCodes(t, injected) {
				if !before[code] {
					t.Errorf("only the injected manifest has a finding %s", code)
				}
			}
		})
	}
}

func TestVetDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":    cleanJob,
		"b.yaml":    "a: [\n",
		"c.yml":     infoJob,
		"README.md": "no manifest",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := runCommand(t, "", "vet", "-f", dir)
	if exitCode(err) != 2 {
		t.Errorf("error %v, want exit code 2", err)
	}
	for _, want := range []string{"b.yaml: document 1", "c.yml: job/train", "2 workloads"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("output does not contain %q:\n%s", want, stdout)
		}
	}
	if _, _, err := runCommand(t, "", "vet", "-f", filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}
