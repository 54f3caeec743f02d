package injection

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/plan"
)

// CheckUnique returns an error if a plan has a value twice, which is a bug in an injector.
func CheckUnique(p *plan.Plan) error {
	return cmp.Or(
		findDuplicate(KindEnv, p.Env, func(e *plan.Env) string { return e.Name }),
		findDuplicate(kindLabel, p.PodLabels, func(l *plan.Label) string { return l.Name }),
		findDuplicate(kindAnnotation, p.PodAnnotations, func(l *plan.Label) string { return l.Name }),
		findDuplicate(KindVolume, p.Volumes, func(v *plan.Volume) string { return v.Name }),
		findDuplicate(kindInitContainer, p.InitContainers, func(c *plan.InitContainer) string { return c.Name }),
		findDuplicate(KindResource, p.Resources, func(r *plan.Resource) string { return string(r.Name) }),
		findDuplicate(kindDNSSearch, p.DNSSearches, func(domain *string) string { return *domain }),
		findDuplicate(kindToleration, p.Tolerations, func(t *corev1.Toleration) string { return tolerationName(*t) }),
	)
}

// findDuplicate returns an error for a name that occurs twice. The lists are too short for an index.
func findDuplicate[T any](kind string, list []T, name func(*T) string) error {
	for i := range list {
		for j := range i {
			if name(&list[i]) == name(&list[j]) {
				return fmt.Errorf("checking the plan: %s is planned twice", key{kind: kind, name: name(&list[i])})
			}
		}
	}
	return nil
}
