package vet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/vet"
)

// job is a Job about which there is nothing to say, and what a case adds to it: parts of
// YAML in its flow style.
type job struct {
	kind, name, framework       string
	ranks                       int
	labels, annotations, spec   string
	template, pod               string
	container, image, resources string
}

func (j job) String() string {
	or := func(a, b string) string {
		if a == "" {
			return b
		}
		return a
	}
	if j.ranks == 0 {
		j.ranks = 2
	}
	labels := j.labels
	if j.framework != "none" {
		labels = "rollcall.training/framework: " + or(j.framework, "pytorch") + ", " + labels
	}
	if !strings.Contains(j.annotations, "restart") && !strings.Contains(j.annotations, "elastic") {
		j.annotations += ", rollcall.training/restart-policy: never"
	}
	version, size, policy := "batch/v1", fmt.Sprintf("parallelism: %d, completions: %d", j.ranks, j.ranks), "restartPolicy: Never"
	if j.kind == "StatefulSet" {
		version, size, policy = "apps/v1", fmt.Sprintf("replicas: %d, serviceName: %s, podManagementPolicy: Parallel", j.ranks, or(j.name, "train")), "dnsPolicy: ClusterFirst"
	}
	if strings.Contains(j.pod, "restartPolicy") || strings.Contains(j.pod, "dnsPolicy") && j.kind == "StatefulSet" {
		policy = "enableServiceLinks: false"
	}
	return fmt.Sprintf(`apiVersion: %s
kind: %s
metadata: {name: %s, labels: {%s}, annotations: {%s}}
spec: {%s, %s
  template: {metadata: {%s}, spec: {%s, %s
    containers: [{name: trainer, image: %q, resources: {%s}, %s}]}}}
`, version, or(j.kind, "Job"), or(j.name, "train"), labels, strings.TrimPrefix(j.annotations, ", "), size, comma(j.spec),
		j.template, policy, comma(j.pod), or(j.image, "registry.example.com/train:1"), or(j.resources, "limits: {memory: 1Gi}"), j.container)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return s + ","
}

func look(t testing.TB, text string, disabled ...vet.Code) vet.Report {
	t.Helper()
	docs, bad := manifest.ReadAll("a.yaml", strings.NewReader(text))
	return vet.Run(docs, bad, vet.Options{Engine: injectors.New(injectors.Builtin(), gang.Config{}), Disabled: disabled})
}

// fields are the fields that a check finds fault with.
func fields(r vet.Report, code vet.Code) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Code == code {
			out = append(out, f.Field)
		}
	}
	return out
}

func TestChecks(t *testing.T) {
	fires, silent := map[vet.Code]bool{}, map[vet.Code]bool{}
	for code, cases := range allCases() {
		for i, c := range cases {
			t.Run(fmt.Sprintf("%s/%d", code, i), func(t *testing.T) {
				report := look(t, c.text)
				if diff := cmp.Diff(c.want, fields(report, code)); diff != "" {
					t.Errorf("%s (-want +got):\n%s\nof %+v\nin\n%s", c.reason, diff, report.Findings, c.text)
				}
				for _, f := range report.Findings {
					if !c.badInput && (f.Code == vet.CodeUnreadable || f.Code == vet.CodeUndecodable) {
						t.Errorf("the case itself cannot be read: %+v", f)
					}
					if f.Message == "" || strings.ContainsAny(f.Message+f.Fix, "\n") || f.Line == 0 || f.Source == "" {
						t.Errorf("%s: no finding to show: %+v", c.reason, f)
					}
				}
			})
			if len(c.want) > 0 {
				fires[code] = true
			} else {
				silent[code] = true
			}
		}
	}
	for _, c := range vet.Checks() {
		if !fires[c.Code] || !silent[c.Code] {
			t.Errorf("%s has no case that fires (%v), or none in which it is silent (%v)", c.Code, fires[c.Code], silent[c.Code])
		}
	}
}

// TestNothingToSay holds the workload that the cases begin with to what it is.
func TestNothingToSay(t *testing.T) {
	for _, text := range []string{job{}.String(), job{kind: "StatefulSet"}.String()} {
		if r := look(t, text); len(r.Findings) > 0 || r.Workloads != 1 {
			t.Errorf("%d workloads, findings %+v in\n%s", r.Workloads, r.Findings, text)
		}
	}
}

func TestChecksAreExplained(t *testing.T) {
	seen := map[vet.Code]bool{}
	for _, c := range vet.Checks() {
		if seen[c.Code] || c.Code == "" || c.Title == "" || c.Why == "" || c.Fix == "" {
			t.Errorf("%q stands twice, or is not explained: %+v", c.Code, c)
		}
		if strings.HasSuffix(c.Title, ".") || !strings.HasSuffix(c.Why, ".") || !strings.HasSuffix(c.Fix, ".") {
			t.Errorf("%s: a title is no sentence, the rest is", c.Code)
		}
		if c.Severity != vet.Error && c.Severity != vet.Warning && c.Severity != vet.Advice {
			t.Errorf("%s has the severity %q", c.Code, c.Severity)
		}
		if found, ok := vet.Find(c.Code); !ok || found.Title != c.Title {
			t.Errorf("%s is not found by its code", c.Code)
		}
		seen[c.Code] = true
	}
}

func TestDisabled(t *testing.T) {
	text := job{image: "a", resources: "limits: {cpu: 1}"}.String()
	if got := look(t, text); len(got.Findings) != 2 {
		t.Fatalf("findings %+v, want two", got.Findings)
	}
	got := look(t, text, vet.CodeFloatingImage)
	if len(got.Findings) != 1 || got.Findings[0].Code != vet.CodeNoMemoryLimit {
		t.Errorf("findings %+v, want %s alone", got.Findings, vet.CodeNoMemoryLimit)
	}
}

// TestOrder holds the report to an order that depends on the input alone.
func TestOrder(t *testing.T) {
	text := "a: [\n---\n" + job{name: "b", image: "a", framework: "torch"}.String() + "---\n" + job{name: "a", image: "a", resources: "limits: {cpu: 1}"}.String()
	first := look(t, text)
	var got []string
	for _, f := range first.Findings {
		got = append(got, fmt.Sprintf("%d %s %s %s", f.Document, f.Object, f.Severity, f.Code))
	}
	want := []string{
		"1  error Unreadable",
		"2 job/b error Denied",
		"3 job/a advice FloatingImage",
		"3 job/a advice NoMemoryLimit",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for range 5 {
		if diff := cmp.Diff(first, look(t, text)); diff != "" {
			t.Fatalf("another look found something else:\n%s", diff)
		}
	}
}

// FuzzRun: whatever the text, the report can be shown, and what cannot be read is told.
func FuzzRun(f *testing.F) {
	for _, cases := range allCases() {
		for _, c := range cases {
			f.Add([]byte(c.text))
		}
	}
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, bad := manifest.ReadAll("fuzz", strings.NewReader(string(text)))
		before := make([]string, len(docs))
		for i, d := range docs {
			before[i] = fmt.Sprintf("%s %+v", d, d.Objects())
		}
		r := vet.Run(docs, bad, vet.Options{Engine: engine})
		unreadable := 0
		for _, found := range r.Findings {
			if found.Code == vet.CodeUnreadable {
				unreadable++
			}
			if found.Message == "" || found.Line < 1 {
				t.Errorf("no finding to show: %+v", found)
			}
		}
		if unreadable != len(bad) {
			t.Errorf("%d documents cannot be read, and %d are told", len(bad), unreadable)
		}
		for i, d := range docs {
			if got := fmt.Sprintf("%s %+v", d, d.Objects()); len(got) != len(before[i]) {
				t.Errorf("document %d was changed", d.Number)
			}
		}
	})
}
