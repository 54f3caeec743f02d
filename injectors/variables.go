package injectors

import (
	"cmp"
	"maps"
	"slices"

	"rollcall.training/plan"
)

// Variable is an environment variable that an injector sets in training containers.
type Variable struct {
	// Name is the name of the variable.
	Name string
	// Policy is the strictest policy that any sample gang has for the variable:
	// [plan.Required] means that a different value of the user is an error.
	Policy plan.ConflictPolicy
	// MultiPodOnly is true if a gang of one pod does not get the variable.
	MultiPodOnly bool
}

// Variables returns the variables that the injector of a framework sets in a pod of any role,
// sorted by name. It plans sample gangs, so the result always matches the injector. The variables
// that baseline.go sets for every framework, such as [EnvRank], are not included. The error reports
// an unknown framework.
func (r Registry) Variables(framework string) ([]Variable, error) {
	inj, err := r.findInjector(framework)
	if err != nil {
		return nil, err
	}
	samples, err := r.Samples(framework)
	if err != nil {
		return nil, err
	}
	defaultRole, _ := inj.Framework().FindRole(inj.Framework().DefaultRole)
	singlePod, err := newSample(inj, newSampleWorkload(inj.Framework(), defaultRole, 1, map[string]string{}))
	if err != nil {
		return nil, err
	}
	byName := map[string]Variable{}
	for _, sample := range append(samples, singlePod) {
		for _, e := range sample.Plan.Env {
			v, known := byName[e.Name]
			if !known {
				v = Variable{Name: e.Name, Policy: e.Policy, MultiPodOnly: true}
			}
			v.Policy = min(v.Policy, e.Policy) // the policies are declared from strict to lenient
			v.MultiPodOnly = v.MultiPodOnly && sample.Gang.Size > 1
			byName[e.Name] = v
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) }), nil
}
