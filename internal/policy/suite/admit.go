// Package suite judges manifests by a policy as admission would: with defaults, injection and all members
// of their gang.
//
// [Options.Admit] returns one [Outcome] for each labeled workload. [Read] reads a file with test cases for a
// policy, and [Suite.Run] compares each case with its outcomes. [Cover] returns what the cases cover, and [Compare]
// the workloads whose outcome differs between two policies.
//
// The package has no client and no clock. [rollcall.training/internal/vet] and the command line use it.
package suite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/roster"
)

// Options are the circumstances of an admission.
type Options struct {
	// Engine is the injection engine of the webhook. Required.
	Engine *injectors.Engine
	// Policy is the policy; nil if it is not known.
	Policy *policy.Policy
	// Namespaces are the labels of namespaces by name.
	Namespaces map[string]map[string]string
	// Now is the time at which exemptions must hold.
	Now time.Time
	// Admitted is true for the workloads of a cluster. They get neither defaults nor an injection.
	Admitted bool
}

// Outcome is the admission of one workload.
type Outcome struct {
	// Object is kind/name with the kind in lower case.
	Object string `json:"object"`
	// Namespace is the namespace of the workload.
	Namespace string `json:"namespace"`
	// Gang is the name of the gang; empty if the workload does not describe a gang.
	Gang string `json:"gang,omitempty"`
	// Denials are the mistakes for which Rollcall denies the workload regardless of limits.
	Denials []string `json:"denials,omitempty"`
	// Findings are the violations of the policy.
	Findings []policy.Finding `json:"findings,omitempty"`

	member policy.Member // with the workload as admitted
	rules  []string      // those that judged the gang
}

// Admitted reports whether the webhook admits the workload. What is not known yet does not deny it.
func (o Outcome) Admitted() bool {
	return len(o.Denials) == 0 && policy.Worst(o.Findings) != policy.ModeEnforce
}

// String returns the object and its namespace.
func (o Outcome) String() string { return o.Object + " in " + o.Namespace }

// Describe returns what the webhook does with the workload, in a few words.
func (o Outcome) Describe() string {
	var parts []string
	if len(o.Denials) > 0 {
		parts = append(parts, "denied: "+strings.Join(o.Denials, "; "))
	}
	for _, f := range o.Findings {
		mode := string(f.Mode)
		if f.Unknown {
			mode = "unknown"
		}
		parts = append(parts, mode+" "+f.Rule)
	}
	return cmp.Or(strings.Join(parts, ", "), "no findings")
}

// Admit returns the outcomes for the labeled workloads, in their order. It does not change the workloads.
// Members of one gang are judged together.
func (o Options) Admit(workloads []gang.Workload) []Outcome {
	var outcomes []Outcome
	var admitted []gang.Workload
	positions := map[runtime.Object]int{}
	for _, original := range workloads {
		if !original.HasFrameworkLabel() || original.OptedOut() {
			continue
		}
		w := original.DeepCopy()
		outcome := Outcome{Object: w.Kind().ObjectName(w.Meta().Name), Namespace: w.Meta().Namespace}
		g, _, err := o.AdmitWorkload(w)
		if err != nil {
			outcome.Denials = injectors.DenialCauses(err)
		} else {
			outcome.Gang, admitted = g.Name, append(admitted, w)
			outcome.member.Gang = *g
		}
		outcome.member.Workload, positions[w.Object()] = w, len(outcomes)
		outcomes = append(outcomes, outcome)
	}
	for _, group := range roster.GroupWorkloads(admitted, o.Engine.Frameworks()) {
		var members []policy.Member
		for _, w := range group.Workloads {
			members = append(members, outcomes[positions[w.Object()]].member)
		}
		for i, j := range o.Policy.Judge(o.NewInput(group.Namespace, members)) {
			outcome := &outcomes[positions[group.Workloads[i].Object()]]
			outcome.Findings, outcome.rules = j.Findings, j.Rules
		}
	}
	return outcomes
}

// Inject sets the defaults of the policy in a labeled workload and injects it, in place. It also returns the
// warnings of the policy.
func (o Options) Inject(w gang.Workload) (injectors.Result, gang.Warnings, error) {
	var warnings gang.Warnings
	if o.Policy != nil {
		var err error
		if warnings, err = o.Policy.ApplyDefaults(w, o.namespace(w.Meta().Namespace)); err != nil {
			return injectors.Result{Reason: gang.ReasonInvalid}, nil, err
		}
	}
	result, err := o.Engine.Inject(w)
	return result, warnings, err
}

// NewInput returns the members of a gang as a policy judges them.
func (o Options) NewInput(namespace string, members []policy.Member) policy.Input {
	return policy.Input{Namespace: o.namespace(namespace), Now: o.Now, Members: members}
}

func (o Options) namespace(name string) policy.Namespace {
	return policy.Namespace{Name: name, Labels: o.Namespaces[name]}
}

// AdmitWorkload admits a labeled workload in place. The error is the denial. The gang is nil if the workload does not
// describe a gang. The webhook can deny a workload whose gang is valid, for example for a single variable.
func (o Options) AdmitWorkload(w gang.Workload) (*gang.Gang, gang.Warnings, error) {
	var warnings gang.Warnings
	original, err := w, error(nil)
	if !o.Admitted {
		original = w.DeepCopy()
		var result injectors.Result
		if result, _, err = o.Inject(w); err == nil {
			return &result.Gang, result.Warnings, nil
		}
		warnings = result.Warnings
	}
	description, invalid := o.Engine.Describe(original)
	if invalid != nil {
		return nil, warnings, cmp.Or(err, invalid)
	}
	return &description.Gang, warnings, err
}

// ReadNamespaces returns the labels of the namespaces of documents by name.
func ReadNamespaces(docs []*manifest.Document) map[string]map[string]string {
	namespaces := map[string]map[string]string{}
	for _, object := range manifest.ListObjects(docs) {
		if object.Kind == "Namespace" {
			namespaces[object.Name] = object.Labels
		}
	}
	return namespaces
}

// ReadWorkloads returns the labeled workloads of documents, among them the Jobs of CronJobs. The namespace is that of
// objects without a namespace. If strict is true, an unknown field is an error.
func ReadWorkloads(docs []*manifest.Document, namespace string, strict bool) ([]gang.Workload, error) {
	var workloads []gang.Workload
	for _, d := range docs {
		for _, object := range d.Objects() {
			prefix := ""
			job, isCronJob := object.JobOfCronJob()
			if isCronJob {
				object, prefix = job, manifest.JobTemplatePrefix
			}
			if !object.HasFrameworkLabel() {
				continue
			}
			w, unknown, isWorkload, err := object.DecodeWorkload()
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", d, err)
			case strict && len(unknown) > 0:
				return nil, fmt.Errorf("%s: %s%s: unknown field", d, prefix, unknown[0])
			case isWorkload:
				w.Meta().Namespace = cmp.Or(w.Meta().Namespace, namespace, "default")
				workloads = append(workloads, w)
			}
		}
	}
	return workloads, nil
}

// Change is a workload that two policies treat differently.
type Change struct {
	// Object and Namespace identify the workload.
	Object    string `json:"object"`
	Namespace string `json:"namespace"`
	// Effect is the consequence for the user.
	Effect Effect `json:"effect"`
	// Before and After are the outcomes with the old and with the new policy.
	Before Outcome `json:"before"`
	After  Outcome `json:"after"`
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

var effects = []Effect{NewlyDenied, NewlyAdmitted, OtherFindings, OtherDefaults}

// Compare returns the workloads that the policy after treats differently from the policy before, the most
// important effects first.
func Compare(o Options, before, after *policy.Policy, workloads []gang.Workload) []Change {
	o.Policy = before
	old := o.Admit(workloads)
	o.Policy = after
	var changes []Change
	for i, outcome := range o.Admit(workloads) {
		c := Change{Object: outcome.Object, Namespace: outcome.Namespace, Before: old[i], After: outcome}
		if !o.Admitted {
			c.Fields = listChangedFields(old[i].member.Workload, outcome.member.Workload)
		}
		switch {
		case old[i].Admitted() && !outcome.Admitted():
			c.Effect = NewlyDenied
		case !old[i].Admitted() && outcome.Admitted():
			c.Effect = NewlyAdmitted
		case old[i].Describe() != outcome.Describe():
			c.Effect = OtherFindings
		case len(c.Fields) > 0:
			c.Effect = OtherDefaults
		default:
			continue
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return slices.Index(effects, a.Effect) - slices.Index(effects, b.Effect)
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
