package verdict

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
)

// Input contains the manifests of one case.
type Input struct {
	// Files are the manifests, and Update those of the update.
	Files, Update []*manifest.Document
}

// CaseResult is the outcome of one case.
type CaseResult struct {
	// Name is the name of the case.
	Name string `json:"name"`
	// Differences describe how the outcome differs from the expectation; empty if the case passes.
	Differences []string `json:"differences,omitempty"`
}

// Result is the outcome of a suite.
type Result struct {
	// Cases are the outcomes in the order of the file.
	Cases []CaseResult `json:"cases"`
	// Coverage is what the cases cover.
	Coverage Coverage `json:"-"`
}

// Run judges the manifests of each case. The inputs have the order of the cases. Options.Now is the time
// for a suite without a date.
func (s Suite) Run(o Options, inputs []Input) Result {
	o.Namespaces = s.Namespaces
	if date, err := s.date(); err == nil && s.Date != "" {
		o.Now = date
	}
	result := Result{Coverage: newCoverage(o.Policy)}
	for i, c := range s.Cases {
		r := CaseResult{Name: c.Name}
		verdicts, err := o.runCase(c, inputs[i])
		if err != nil {
			r.Differences = []string{err.Error()}
		} else {
			r.Differences = c.Want.compare(verdicts)
			result.Coverage.add(verdicts)
		}
		result.Cases = append(result.Cases, r)
	}
	return result
}

// runCase returns the verdicts of a case. Those of an update contain only what the update makes worse.
func (o Options) runCase(c Case, in Input) ([]Verdict, error) {
	workloads, err := decodeWorkloads(in.Files, c.Namespace)
	if err != nil {
		return nil, err
	}
	verdicts := Judge(o, workloads)
	if len(verdicts) == 0 {
		return nil, fmt.Errorf("no file contains a workload with the label %s", gang.LabelFramework)
	}
	if len(c.Update) == 0 {
		return verdicts, nil
	}
	updated, err := decodeWorkloads(in.Update, c.Namespace)
	if err != nil {
		return nil, err
	}
	after := Judge(o, updated)
	for i := range after {
		j := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.String() == after[i].String() })
		if j < 0 {
			return nil, fmt.Errorf("%s is updated, but no file contains it", after[i])
		}
		after[i].Findings = policy.Worsened(verdicts[j].Findings, after[i].Findings)
	}
	return after, nil
}

// decodeWorkloads returns the workloads of documents, and the Jobs of CronJobs.
func decodeWorkloads(docs []*manifest.Document, namespace string) ([]gang.Workload, error) {
	var workloads []gang.Workload
	for _, d := range docs {
		for _, object := range d.Objects() {
			prefix := ""
			if job, ok := object.JobOfCronJob(); ok {
				object, prefix = job, manifest.JobTemplatePrefix
			}
			w, unknown, isWorkload, err := object.DecodeWorkload()
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", d, err)
			case len(unknown) > 0:
				return nil, fmt.Errorf("%s: %s%s: unknown field", d, prefix, unknown[0])
			case !isWorkload:
				continue
			}
			if w.Meta().Namespace == "" {
				w.Meta().Namespace = defaultNamespace(namespace)
			}
			workloads = append(workloads, w)
		}
	}
	return workloads, nil
}

func defaultNamespace(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

// compare returns how verdicts differ from the expectation.
func (w Want) compare(verdicts []Verdict) []string {
	var differences []string
	admitted := !slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.Admitted() })
	if admitted != *w.Admitted {
		differences = append(differences,
			fmt.Sprintf("admitted is %t, want %t (%s)", admitted, *w.Admitted, describe(verdicts)))
	}
	if w.Findings != nil {
		differences = append(differences, w.compareFindings(verdicts)...)
	}
	for _, v := range verdicts {
		for _, path := range slices.Sorted(maps.Keys(w.Set)) {
			if got := v.readField(path); !equalJSON(got, w.Set[path]) {
				differences = append(differences, fmt.Sprintf("%s: %s is %s, want %s", v, path, toJSON(got), toJSON(w.Set[path])))
			}
		}
	}
	return differences
}

func describe(verdicts []Verdict) string {
	var texts []string
	for _, v := range verdicts {
		texts = append(texts, v.Object+": "+v.Describe())
	}
	return strings.Join(texts, "; ")
}

// compareFindings matches each expected finding with one finding.
func (w Want) compareFindings(verdicts []Verdict) []string {
	var rest []policy.Finding
	for _, v := range verdicts {
		rest = append(rest, v.Findings...)
	}
	var differences []string
	for _, want := range *w.Findings {
		i := slices.IndexFunc(rest, want.matches)
		if i < 0 {
			differences = append(differences, "no finding for "+toJSON(want))
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	for _, f := range rest {
		differences = append(differences, fmt.Sprintf("unexpected finding: %s %s %s", f.Mode, f.Rule, f))
	}
	return differences
}

func (w WantFinding) matches(f policy.Finding) bool {
	return w.Rule == f.Rule && w.Unknown == f.Unknown &&
		(w.Mode == "" || w.Mode == f.Mode) && (w.Field == "" || w.Field == f.Field)
}

// readField returns the value of a field of the admitted workload; nil if it is absent.
func (v Verdict) readField(path string) any {
	text, err := json.Marshal(v.workload.Object())
	if err != nil {
		return nil
	}
	return manifest.ReadField(text, path)
}

func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// equalJSON reports whether two values are the same JSON.
func equalJSON(a, b any) bool {
	var x, y any
	if json.Unmarshal([]byte(toJSON(a)), &x) != nil || json.Unmarshal([]byte(toJSON(b)), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
