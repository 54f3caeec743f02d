package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
)

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
