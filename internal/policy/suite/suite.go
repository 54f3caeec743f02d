package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
)

// Kind is the kind of a file with test cases. Nothing with this kind exists in the API of the cluster.
const Kind = "GangPolicyTest"

// Suite is a file with test cases for a policy.
type Suite struct {
	// APIVersion is [policy.APIVersion].
	APIVersion string `json:"apiVersion"`
	// Kind is [Kind].
	Kind string `json:"kind"`
	// Policy is the path of the policy file, relative to this file.
	Policy string `json:"policy"`
	// Namespaces are the labels of namespaces by name, for profiles that select them.
	Namespaces map[string]map[string]string `json:"namespaces,omitempty"`
	// Date is the day on which exemptions must hold, such as 2027-03-31. The default is today.
	Date string `json:"date,omitempty"`
	// Cases are the test cases.
	Cases []Case `json:"cases"`
}

// Case is one test case: manifests and what the webhook does with them.
type Case struct {
	// Name describes the case in a sentence.
	Name string `json:"name"`
	// Files are the paths of manifests or directories, relative to the file of the case.
	Files []string `json:"files"`
	// Update contains the manifests of the same workloads after an update. The case is then about the
	// update: only what it introduces or makes worse is a finding.
	Update []string `json:"update,omitempty"`
	// Namespace is the namespace of objects without a namespace. The default is "default".
	Namespace string `json:"namespace,omitempty"`
	// Want is the expected outcome.
	Want Want `json:"want"`
}

// Want is the expected outcome of a case. Only the fields that are set are compared.
type Want struct {
	// Admitted is true if the webhook admits all workloads. Required.
	Admitted *bool `json:"admitted"`
	// Findings are the expected findings of all workloads; [] expects none. They have no order.
	Findings *[]WantFinding `json:"findings,omitempty"`
	// Set contains the expected values of fields after admission by path, such as
	// spec.activeDeadlineSeconds. Every workload must have them.
	Set map[string]any `json:"set,omitempty"`
}

// WantFinding is an expected finding. Only the fields that are set are compared.
type WantFinding struct {
	// Rule is scope/name. Required.
	Rule string `json:"rule"`
	// Mode is the mode of the rule.
	Mode policy.Mode `json:"mode,omitempty"`
	// Field is the path of the field in the finding.
	Field string `json:"field,omitempty"`
	// Unknown is true if the workload does not show whether the gang violates the rule.
	Unknown bool `json:"unknown,omitempty"`
}

// Read reads a file with test cases strictly. The error lists all mistakes, each with its position.
func Read(source string, text []byte) (Suite, error) {
	docs, unreadable := manifest.ReadAll(source, bytes.NewReader(text))
	if len(unreadable) > 0 {
		return Suite{}, unreadable[0]
	}
	docs = manifest.OmitEmpty(docs)
	objects := manifest.ListObjects(docs)
	if len(docs) != 1 || len(objects) != 1 || objects[0].Kind != Kind || objects[0].APIVersion != policy.APIVersion {
		return Suite{}, fmt.Errorf("%s: must contain one document: %s %s", source, policy.APIVersion, Kind)
	}
	var s Suite
	unknown, err := objects[0].DecodeStrict(&s)
	if err != nil {
		return s, fmt.Errorf("%s: %w", source, err)
	}
	if len(unknown) > 0 {
		line, column := objects[0].Position(unknown[0])
		return s, fmt.Errorf("%s:%d:%d: %s: unknown field", source, line, column, unknown[0])
	}
	return s, s.validate(source, objects[0])
}

// validate returns an error for the first mistake of a suite.
func (s Suite) validate(source string, o manifest.Object) error {
	newError := func(path, message string) error {
		line, column := o.Position(path)
		return fmt.Errorf("%s:%d:%d: %s: %s", source, line, column, path, message)
	}
	if s.Policy == "" {
		return newError("policy", "is required: the path of the policy file")
	}
	if _, err := s.date(); err != nil {
		return newError("date", "must be a date, such as 2027-03-31")
	}
	if len(s.Cases) == 0 {
		return newError("cases", "is required")
	}
	names := map[string]bool{}
	for i, c := range s.Cases {
		path := fmt.Sprintf("cases[%d]", i)
		switch {
		case c.Name == "":
			return newError(path+".name", "is required")
		case names[c.Name]:
			return newError(path+".name", "is the name of an earlier case")
		case len(c.Files) == 0:
			return newError(path+".files", "is required")
		case c.Want.Admitted == nil:
			return newError(path+".want.admitted", "is required; write true or false")
		}
		names[c.Name] = true
	}
	return nil
}

// date returns the time at which exemptions must hold; zero for today.
func (s Suite) date() (time.Time, error) {
	if s.Date == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, s.Date)
}

// CaseResult is the outcome of one case.
type CaseResult struct {
	// Name is the name of the case.
	Name string `json:"name"`
	// Differences describe how the outcome differs from the expectation; empty if the case passes.
	Differences []string `json:"differences,omitempty"`
}

// ReadFiles returns the documents of manifests and directories.
type ReadFiles func(paths []string) ([]*manifest.Document, error)

// Run admits the manifests of each case. It returns the results in the order of the file, and the outcomes of all
// cases. Options.Now is the time for a suite without a date. The error is for a file that cannot be read.
func (s Suite) Run(o Options, read ReadFiles) ([]CaseResult, []Outcome, error) {
	o.Namespaces = s.Namespaces
	if date, err := s.date(); err == nil && s.Date != "" {
		o.Now = date
	}
	var results []CaseResult
	var all []Outcome
	for _, c := range s.Cases {
		files, err := read(c.Files)
		if err != nil {
			return nil, nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		update, err := read(c.Update)
		if err != nil {
			return nil, nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		r := CaseResult{Name: c.Name}
		outcomes, err := o.runCase(c, files, update)
		if err != nil {
			r.Differences = []string{err.Error()}
		} else {
			r.Differences = c.Want.compare(outcomes)
		}
		results, all = append(results, r), append(all, outcomes...)
	}
	return results, all, nil
}

// runCase returns the outcomes of a case. Those of an update contain only what the update makes worse.
func (o Options) runCase(c Case, files, update []*manifest.Document) ([]Outcome, error) {
	workloads, err := ReadWorkloads(files, c.Namespace, true)
	if err != nil {
		return nil, err
	}
	outcomes := o.Admit(workloads)
	if len(outcomes) == 0 {
		return nil, fmt.Errorf("no file contains a workload with the label %s", gang.LabelFramework)
	}
	if len(c.Update) == 0 {
		return outcomes, nil
	}
	if workloads, err = ReadWorkloads(update, c.Namespace, true); err != nil {
		return nil, err
	}
	after := o.Admit(workloads)
	for i := range after {
		j := slices.IndexFunc(outcomes, func(outcome Outcome) bool { return outcome.String() == after[i].String() })
		if j < 0 {
			return nil, fmt.Errorf("%s is updated, but no file contains it", after[i])
		}
		after[i].Findings = policy.Worsened(outcomes[j].Findings, after[i].Findings)
	}
	return after, nil
}

// Gap is a rule without a test case of one outcome.
type Gap struct {
	// Rule is the name of the limit, the rule or the locked default.
	Rule string `json:"rule"`
	// Missing are the outcomes without a case: pass, fail.
	Missing []string `json:"missing"`
}

// Cover returns the rules of a policy without a gang that satisfies them, or without a gang that violates them.
func Cover(p *policy.Policy, outcomes []Outcome) []Gap {
	passed, failed := map[string]bool{}, map[string]bool{}
	for _, o := range outcomes {
		for _, rule := range o.rules {
			i := slices.IndexFunc(o.Findings, func(f policy.Finding) bool { return f.Rule == rule })
			if i < 0 {
				passed[rule] = true
			} else if !o.Findings[i].Unknown {
				failed[rule] = true
			}
		}
	}
	gaps := []Gap{}
	for _, rule := range p.EnabledRules() {
		var missing []string
		if !passed[rule] {
			missing = append(missing, "pass")
		}
		if !failed[rule] {
			missing = append(missing, "fail")
		}
		if len(missing) > 0 {
			gaps = append(gaps, Gap{Rule: rule, Missing: missing})
		}
	}
	return gaps
}

// compare returns how outcomes differ from the expectation.
func (w Want) compare(outcomes []Outcome) []string {
	var differences []string
	admitted := !slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.Admitted() })
	if admitted != *w.Admitted {
		differences = append(differences,
			fmt.Sprintf("admitted is %t, want %t (%s)", admitted, *w.Admitted, describe(outcomes)))
	}
	if w.Findings != nil {
		differences = append(differences, w.compareFindings(outcomes)...)
	}
	for _, o := range outcomes {
		for _, path := range slices.Sorted(maps.Keys(w.Set)) {
			if got, want := toJSON(o.readField(path)), toJSON(w.Set[path]); got != want {
				differences = append(differences, fmt.Sprintf("%s: %s is %s, want %s", o, path, got, want))
			}
		}
	}
	return differences
}

func describe(outcomes []Outcome) string {
	var texts []string
	for _, o := range outcomes {
		texts = append(texts, o.Object+": "+o.Describe())
	}
	return strings.Join(texts, "; ")
}

// compareFindings matches each expected finding with one finding.
func (w Want) compareFindings(outcomes []Outcome) []string {
	var rest []policy.Finding
	for _, o := range outcomes {
		rest = append(rest, o.Findings...)
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
func (o Outcome) readField(path string) any {
	text, err := json.Marshal(o.member.Workload.Object())
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
