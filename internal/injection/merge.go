package injection

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/plan"
)

// Merge combines the plan of an injector with the plan for every gang. It returns an error if a value is planned
// twice, which is a bug in an injector.
func Merge(p, every plan.Plan) (plan.Plan, error) {
	p.Env = slices.Concat(p.Env, every.Env)
	p.PodLabels = slices.Concat(p.PodLabels, every.PodLabels)
	p.PodAnnotations = slices.Concat(p.PodAnnotations, every.PodAnnotations)
	p.Volumes = slices.Concat(p.Volumes, every.Volumes)
	p.Resources = slices.Concat(p.Resources, every.Resources)
	p.InitContainers = slices.Concat(p.InitContainers, every.InitContainers)
	p.DNSSearches = slices.Concat(p.DNSSearches, every.DNSSearches)
	p.Tolerations = slices.Concat(p.Tolerations, every.Tolerations)
	p.Programs = slices.Concat(p.Programs, every.Programs)
	p.LivenessProbe = cmp.Or(p.LivenessProbe, every.LivenessProbe)
	p.ReadinessProbe = cmp.Or(p.ReadinessProbe, every.ReadinessProbe)
	p.RestartInPlace = p.RestartInPlace || every.RestartInPlace
	p.JobFailureLimit = max(p.JobFailureLimit, every.JobFailureLimit)
	p.CompleteWithFirstPod = p.CompleteWithFirstPod || every.CompleteWithFirstPod
	p.SchedulerName, p.SchedulingGroup = every.SchedulerName, every.SchedulingGroup
	p.Children.PodGroup = every.Children.PodGroup
	p.Children.Service = cmp.Or(p.Children.Service, every.Children.Service)
	return p, checkUnique(&p)
}

// checkUnique returns an error if a plan has a value twice.
func checkUnique(p *plan.Plan) error {
	return cmp.Or(
		findDuplicate(KindEnv, p.Env, func(e *plan.Env) string { return e.Name }),
		findDuplicate(KindLabel, p.PodLabels, func(l *plan.Label) string { return l.Name }),
		findDuplicate(KindAnnotation, p.PodAnnotations, func(l *plan.Label) string { return l.Name }),
		findDuplicate(KindVolume, p.Volumes, func(v *plan.Volume) string { return v.Name }),
		findDuplicate(KindInitContainer, p.InitContainers, func(c *plan.InitContainer) string { return c.Name }),
		findDuplicate(KindResource, p.Resources, func(r *plan.Resource) string { return string(r.Name) }),
		findDuplicate(KindDNSSearch, p.DNSSearches, func(domain *string) string { return *domain }),
		findDuplicate(KindToleration, p.Tolerations, func(t *corev1.Toleration) string { return tolerationName(*t) }),
	)
}

// findDuplicate returns an error for a name that occurs twice. The lists are too short for an index.
func findDuplicate[T any](kind string, list []T, name func(*T) string) error {
	for i := range list {
		for j := range i {
			if name(&list[i]) == name(&list[j]) {
				return fmt.Errorf("merging plans: %s is planned twice", key{kind: kind, name: name(&list[i])})
			}
		}
	}
	return nil
}
