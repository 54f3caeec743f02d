package verdict

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/json"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/policy"
)

// Change is a workload that two policies treat differently.
type Change struct {
	// Object and Namespace identify the workload.
	Object    string `json:"object"`
	Namespace string `json:"namespace"`
	// Effect is the consequence for the user.
	Effect Effect `json:"effect"`
	// Before and After are the verdicts of the old and of the new policy.
	Before Verdict `json:"before"`
	After  Verdict `json:"after"`
	// Fields are the paths of the fields with other values after admission.
	Fields []string `json:"fields,omitempty"`
}

// Effect is the consequence of a changed policy for a workload.
type Effect string

// The effects, the most important first.
const (
	// NewlyDenied means that only the new policy denies the workload.
	NewlyDenied Effect = "denied"
	// NewlyAdmitted means that only the old policy denies the workload.
	NewlyAdmitted Effect = "admitted"
	// OtherFindings means that other rules are violated, or in another mode.
	OtherFindings Effect = "findings"
	// OtherDefaults means that only the values of fields differ.
	OtherDefaults Effect = "defaults"
)

// Effects returns all effects, the most important first.
func Effects() []Effect { return []Effect{NewlyDenied, NewlyAdmitted, OtherFindings, OtherDefaults} }

// Compare returns the workloads that the policy after treats differently from the policy before, the most
// important effects first.
func Compare(o Options, before, after *policy.Policy, workloads []gang.Workload) []Change {
	o.Policy = before
	old := Judge(o, workloads)
	o.Policy = after
	var changes []Change
	for i, v := range Judge(o, workloads) {
		c := Change{Object: v.Object, Namespace: v.Namespace, Before: old[i], After: v}
		if !o.Admitted {
			c.Fields = listChangedFields(old[i].workload, v.workload)
		}
		switch {
		case old[i].Admitted() && !v.Admitted():
			c.Effect = NewlyDenied
		case !old[i].Admitted() && v.Admitted():
			c.Effect = NewlyAdmitted
		case old[i].Describe() != v.Describe():
			c.Effect = OtherFindings
		case len(c.Fields) > 0:
			c.Effect = OtherDefaults
		default:
			continue
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return slices.Index(Effects(), a.Effect) - slices.Index(Effects(), b.Effect)
	})
	return changes
}

// listChangedFields returns the paths of the fields in which two admitted workloads differ, as JSON pointers,
// except for the record of the defaults.
func listChangedFields(before, after gang.Workload) []string {
	a, b := before.DeepCopy(), after.DeepCopy()
	for _, w := range []gang.Workload{a, b} {
		delete(w.Meta().Annotations, gang.AnnotationInjected)
	}
	text, err := json.Marshal(a.Object())
	if err != nil {
		return nil
	}
	var paths []string
	for _, op := range injection.Diff(text, a.Object(), b.Object()) {
		if !slices.Contains(paths, op.Path) {
			paths = append(paths, op.Path)
		}
	}
	return paths
}
