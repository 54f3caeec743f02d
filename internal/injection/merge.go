package injection

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall.training/plan"
)

// Merge combines the plan of an injector with the plan for every gang. It returns an error if a value is planned
// twice, which is a bug in an injector.
func Merge(p, every plan.Plan) (plan.Plan, error) {
	p.Env = slices.Concat(p.Env, every.Env)
	p.PodLabels = slices.Concat(p.PodLabels, every.PodLabels)
	p.Volumes = slices.Concat(p.Volumes, every.Volumes)
	p.Resources = slices.Concat(p.Resources, every.Resources)
	p.InitContainers = slices.Concat(p.InitContainers, every.InitContainers)
	p.DNSSearches = slices.Concat(p.DNSSearches, every.DNSSearches)
	p.Programs = slices.Concat(p.Programs, every.Programs)
	p.RestartInPlace = p.RestartInPlace || every.RestartInPlace
	p.JobFailureLimit = max(p.JobFailureLimit, every.JobFailureLimit)
	p.CompleteWithFirstPod = p.CompleteWithFirstPod || every.CompleteWithFirstPod
	p.Children.Service = cmp.Or(p.Children.Service, every.Children.Service)
	return p, checkUnique(&p)
}

// checkUnique returns an error if a plan has a value twice.
func checkUnique(p *plan.Plan) error {
	seen := make(map[key]bool, len(p.Env)+len(p.PodLabels)+len(p.Volumes))
	var err error
	claim := func(kind, name string) {
		if k := (key{kind: kind, name: name}); seen[k] {
			err = fmt.Errorf("merging plans: %s is planned twice", k)
		} else {
			seen[k] = true
		}
	}
	for i := range p.Env {
		claim(KindEnv, p.Env[i].Name)
	}
	for _, l := range p.PodLabels {
		claim(KindLabel, l.Name)
	}
	for i := range p.Volumes {
		claim(KindVolume, p.Volumes[i].Name)
	}
	for i := range p.InitContainers {
		claim(KindInitContainer, p.InitContainers[i].Name)
	}
	for _, r := range p.Resources {
		claim(KindResource, string(r.Name))
	}
	for _, domain := range p.DNSSearches {
		claim(KindDNSSearch, domain)
	}
	return err
}
