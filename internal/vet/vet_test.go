package vet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/vet"
)

// runVet runs all checks except the disabled ones on the text of a file with the name a.yaml.
func runVet(t testing.TB, text string, disabled ...vet.Code) vet.Report {
	t.Helper()
	docs, unreadable := manifest.ReadAll("a.yaml", strings.NewReader(text))
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	p, problems := policy.Read("policy.yaml", []byte(testPolicy), engine.Frameworks())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return vet.Run(docs, unreadable, vet.Options{Engine: engine, Policy: p, Disabled: disabled})
}

// findingFields returns the fields of the findings with the given code.
func findingFields(r vet.Report, code vet.Code) []string {
	var fields []string
	for _, f := range r.Findings {
		if f.Code == code {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

func TestChecks(t *testing.T) {
	hasPositiveCase, hasNegativeCase := map[vet.Code]bool{}, map[vet.Code]bool{}
	for code, cases := range allCases() {
		for _, c := range cases {
			t.Run(string(code)+"/"+c.name, func(t *testing.T) {
				report := runVet(t, c.manifest)
				if diff := cmp.Diff(c.want, findingFields(report, code)); diff != "" {
					t.Errorf("fields (-want +got):\n%s\nfindings: %+v\nmanifest:\n%s", diff, report.Findings, c.manifest)
				}
				for _, f := range report.Findings {
					if !c.invalid && (f.Code == vet.CodeUnreadable || f.Code == vet.CodeUndecodable) {
						t.Errorf("manifest of the case is invalid: %+v", f)
					}
					if f.Message == "" || strings.ContainsAny(f.Message+f.Fix, "\n") || f.Line == 0 || f.Source == "" {
						t.Errorf("incomplete finding: %+v", f)
					}
				}
			})
			if len(c.want) > 0 {
				hasPositiveCase[code] = true
			} else {
				hasNegativeCase[code] = true
			}
		}
	}
	for _, c := range vet.Checks() {
		if !hasPositiveCase[c.Code] || !hasNegativeCase[c.Code] {
			t.Errorf("%s needs a case with a finding (has one: %v) and a case without (has one: %v)",
				c.Code, hasPositiveCase[c.Code], hasNegativeCase[c.Code])
		}
	}
}

// TestNoFindings verifies that the workload on which the cases are based has no findings.
func TestNoFindings(t *testing.T) {
	for _, text := range []string{testJob{}.String(), testJob{kind: "StatefulSet"}.String()} {
		if r := runVet(t, text); len(r.Findings) > 0 || r.Workloads != 1 {
			t.Errorf("workloads: %d, findings: %+v, manifest:\n%s", r.Workloads, r.Findings, text)
		}
	}
}

// TestChecksAreExplained verifies that each check has a unique code and complete texts.
func TestChecksAreExplained(t *testing.T) {
	seen := map[vet.Code]bool{}
	for _, c := range vet.Checks() {
		if seen[c.Code] || c.Code == "" || c.Title == "" || c.Why == "" || c.Fix == "" {
			t.Errorf("code %q is not unique, or has no title, reason or fix: %+v", c.Code, c)
		}
		if strings.HasSuffix(c.Title, ".") || !strings.HasSuffix(c.Why, ".") || !strings.HasSuffix(c.Fix, ".") {
			t.Errorf("%s: the title must not end with a period, the other texts must", c.Code)
		}
		if c.Severity != vet.Error && c.Severity != vet.Warning && c.Severity != vet.Info {
			t.Errorf("%s has the unknown severity %q", c.Code, c.Severity)
		}
		if found, ok := vet.FindCheck(c.Code); !ok || found.Title != c.Title {
			t.Errorf("FindCheck does not find %s", c.Code)
		}
		seen[c.Code] = true
	}
}

// TestUnchecked verifies the description of an input without labeled workloads.
func TestUnchecked(t *testing.T) {
	const (
		missing    = "no object has the label rollcall.training/framework"
		pyTorchJob = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
		volcanoJob = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"
	)
	unlabeled := testJob{framework: "none", annotations: "a: b"}.String()
	for _, c := range []struct{ name, manifest, want string }{
		{name: "empty input", want: missing + ", and the input contains no object"},
		{
			name:     "job of another system",
			manifest: joinDocuments(serviceYAML("a", ""), pyTorchJob, pyTorchJob),
			want:     missing + "; found 2 PyTorchJobs, 1 Service; convert with rollcall migrate",
		},
		{
			name:     "Job of Volcano",
			manifest: joinDocuments(unlabeled, volcanoJob),
			want:     missing + "; found 1 Job of batch.volcano.sh, 1 Job; convert with rollcall migrate",
		},
		{
			name:     "kind of Kubeflow that is not a job",
			manifest: "apiVersion: kubeflow.org/v1\nkind: Notebook\nmetadata: {name: a}\n",
			want:     missing + "; found 1 Notebook",
		},
		{
			name:     "Job without a label",
			manifest: joinDocuments(serviceYAML("a", ""), unlabeled),
			want:     missing + "; found 1 Job, 1 Service",
		},
		{name: "labeled Job", manifest: joinDocuments(testJob{}.String(), pyTorchJob)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, runVet(t, c.manifest).ExplainUnchecked()); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestElasticFix verifies that the fix for a fixed number of nodes does not make a gang of fixed size
// elastic.
func TestElasticFix(t *testing.T) {
	for nodes, want := range map[string]string{
		"2": "remove rollcall.training/elastic, because the command runs a gang of fixed size",
		"3": "for a gang of fixed size, remove rollcall.training/elastic; for an elastic gang, remove the flag",
	} {
		manifest := testJob{
			annotations: elasticAnnotation,
			container:   "command: [torchrun, --nnodes=" + nodes + ", a.py]",
		}
		for _, f := range runVet(t, manifest.String()).Findings {
			if f.Code == vet.CodeLauncherFlagConflict && f.Fix != want {
				t.Errorf("--nnodes=%s: fix is %q, want %q", nodes, f.Fix, want)
			}
		}
	}
}

func TestDisabled(t *testing.T) {
	text := testJob{image: "a", resources: "limits: {nvidia.com/gpu: 1}"}.String()
	if got := runVet(t, text); len(got.Findings) != 2 {
		t.Fatalf("findings: %+v, want 2", got.Findings)
	}
	got := runVet(t, text, "MutableImageTag")
	if len(got.Findings) != 1 || got.Findings[0].Code != "NoMemoryLimit" {
		t.Errorf("findings: %+v, want only %s", got.Findings, "NoMemoryLimit")
	}
}

// TestOrder verifies that the order of the findings depends only on the input.
func TestOrder(t *testing.T) {
	text := joinDocuments(
		"a: [\n",
		testJob{name: "b", image: "a", framework: "torch"}.String(),
		testJob{name: "a", image: "a", resources: "limits: {nvidia.com/gpu: 1}"}.String(),
	)
	first := runVet(t, text)
	var got []string
	for _, f := range first.Findings {
		got = append(got, fmt.Sprintf("%d %s %s %s", f.Document, f.Object, f.Severity, f.Code))
	}
	want := []string{
		"1  error Unreadable",
		"2 job/b error Denied",
		"3 job/a info MutableImageTag",
		"3 job/a info NoMemoryLimit",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for range 5 {
		if diff := cmp.Diff(first, runVet(t, text)); diff != "" {
			t.Fatalf("findings differ between runs (-first +later):\n%s", diff)
		}
	}
}

// FuzzRun verifies for arbitrary input that all findings can be printed, that all unreadable
// documents are reported, and that Run does not modify the documents.
func FuzzRun(f *testing.F) {
	for _, cases := range allCases() {
		for _, c := range cases {
			f.Add([]byte(c.manifest))
		}
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, unreadable := manifest.ReadAll("fuzz", strings.NewReader(string(text)))
		before := make([]string, len(docs))
		for i, d := range docs {
			before[i] = fmt.Sprintf("%s %+v", d, d.Objects())
		}
		r := vet.Run(docs, unreadable, vet.Options{Engine: engine})
		reported := 0
		for _, found := range r.Findings {
			if found.Code == vet.CodeUnreadable {
				reported++
			}
			if found.Message == "" || found.Line < 1 {
				t.Errorf("incomplete finding: %+v", found)
			}
		}
		if reported != len(unreadable) {
			t.Errorf("%d of %d unreadable documents are reported", reported, len(unreadable))
		}
		for i, d := range docs {
			if got := fmt.Sprintf("%s %+v", d, d.Objects()); len(got) != len(before[i]) {
				t.Errorf("document %d was modified", d.Number)
			}
		}
	})
}
