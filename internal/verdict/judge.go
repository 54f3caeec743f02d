package verdict

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// Options are the circumstances of a verdict.
type Options struct {
	// Engine is the injection engine of the webhook. Required.
	Engine *injectors.Engine
	// Policy is the policy; nil for no limits.
	Policy *policy.Policy
	// Namespaces are the labels of namespaces by name.
	Namespaces map[string]map[string]string
	// Now is the time at which exemptions must hold.
	Now time.Time
	// Admitted is true for the workloads of a cluster. They get neither defaults nor an injection.
	Admitted bool
}

// Verdict is the judgment of one workload.
type Verdict struct {
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

	workload gang.Workload // as admitted
	checked  []string      // the rules that judged the gang
}

// Admitted reports whether the webhook admits the workload. What is not known yet does not deny it.
func (v Verdict) Admitted() bool {
	return len(v.Denials) == 0 && policy.Worst(v.Findings) != policy.ModeEnforce
}

// String returns the object and its namespace.
func (v Verdict) String() string { return v.Object + " in " + v.Namespace }

// namespace returns what a policy reads of a namespace.
func (o Options) namespace(name string) policy.Namespace {
	return policy.Namespace{Name: name, Labels: o.Namespaces[name]}
}

// Judge returns the verdicts on the labeled workloads, in their order. It does not change the workloads.
// Members of one gang are judged together.
func Judge(o Options, workloads []gang.Workload) []Verdict {
	var verdicts []Verdict
	var admitted []gang.Workload
	facts := map[runtime.Object]policy.Facts{}
	for _, original := range workloads {
		if !original.HasFrameworkLabel() || original.OptedOut() {
			continue
		}
		w := original.DeepCopy()
		v := Verdict{
			Object: strings.ToLower(string(w.Kind())) + "/" + w.Meta().Name, Namespace: w.Meta().Namespace, workload: w,
		}
		g, err := o.admit(w)
		if err != nil {
			v.Denials = injectors.DenialCauses(err)
		} else {
			v.Gang = g.Name
			facts[w.Object()] = policy.NewFacts(g, w)
			admitted = append(admitted, w)
		}
		verdicts = append(verdicts, v)
	}
	o.addMembers(admitted, facts)
	for i := range verdicts {
		if f, ok := facts[verdicts[i].workload.Object()]; ok {
			o.evaluate(&verdicts[i], f)
		}
	}
	return verdicts
}

// admit admits a workload in place, and returns its gang.
func (o Options) admit(w gang.Workload) (gang.Gang, error) {
	if o.Admitted {
		result, err := o.Engine.Describe(w)
		return result.Gang, err
	}
	if _, err := o.Policy.ApplyDefaults(w, o.namespace(w.Meta().Namespace)); err != nil {
		return gang.Gang{}, err
	}
	result, err := o.Engine.Inject(w)
	return result.Gang, err
}

// addMembers completes the facts with those of the other members of each gang.
func (o Options) addMembers(workloads []gang.Workload, facts map[runtime.Object]policy.Facts) {
	for _, group := range gang.GroupWorkloads(workloads, o.Engine.Frameworks()) {
		var members []policy.Facts
		for _, w := range group.Workloads {
			members = append(members, facts[w.Object()])
		}
		for i, w := range group.Workloads {
			facts[w.Object()] = members[i].WithMembers(members)
		}
	}
}

func (o Options) evaluate(v *Verdict, f policy.Facts) {
	in := policy.Input{Facts: f, Namespace: o.namespace(v.Namespace), Workload: v.workload, Now: o.Now}
	v.Findings = o.Policy.Evaluate(in)
	v.checked = o.Policy.RulesFor(in)
}

// Describe returns what the webhook does with the workload, in a few words.
func (v Verdict) Describe() string {
	var parts []string
	if len(v.Denials) > 0 {
		parts = append(parts, "denied: "+strings.Join(v.Denials, "; "))
	}
	for _, f := range v.Findings {
		mode := string(f.Mode)
		if f.Unknown {
			mode = "unknown"
		}
		parts = append(parts, fmt.Sprintf("%s %s", mode, f.Rule))
	}
	if len(parts) == 0 {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}
