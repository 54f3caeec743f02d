package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var resourceTargets = targetKind{
	planned: (*applier).plannedResourceTargets,
	apply:   (*applier).applyResources,
	recorded: func(r *Record, add func(target, string)) {
		newTarget := func(container, name string) target { return resourceTarget{container, corev1.ResourceName(name)} }
		eachByContainer(r.Resources, newTarget, add)
	},
}

// resourceTarget is an extended resource of a container, as limit and request.
type resourceTarget struct {
	container string
	name      corev1.ResourceName
}

func (t resourceTarget) currentValue(p *podTemplate) any {
	if c := p.containersByName[t.container]; c != nil {
		if limit, ok := c.Resources.Limits[t.name]; ok {
			return limit.String()
		}
	}
	return nil
}

func (t resourceTarget) removeFrom(p *podTemplate) {
	if c := p.containersByName[t.container]; c != nil {
		delete(c.Resources.Limits, t.name)
		delete(c.Resources.Requests, t.name)
	}
}

func (t resourceTarget) recordDigest(r *Record, digest string) {
	setByContainer(&r.Resources, t.container, string(t.name), digest)
}

func (a *applier) plannedResourceTargets() []target {
	var targets []target
	for _, r := range a.plan.Resources {
		targets = append(targets,
			a.forEachTrainingContainer(func(name string) target { return resourceTarget{name, r.Name} })...)
	}
	return targets
}

// applyResources sets limits and requests. The API server requires both to be equal for an extended
// resource.
func (a *applier) applyResources() {
	for _, r := range a.plan.Resources {
		amount := *resource.NewQuantity(r.Count, resource.DecimalSI)
		for _, c := range a.trainingContainers() {
			a.applyResource(c, r.Name, amount)
		}
	}
}

func (a *applier) applyResource(c *container, name corev1.ResourceName, amount resource.Quantity) {
	t := resourceTarget{c.Name, name}
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	if (limited || requested) && !a.owned[t] {
		existing, fieldName := limit, "limits"
		if !limited {
			existing, fieldName = request, "requests"
		}
		if existing.Cmp(amount) != 0 {
			path := c.path.Child("resources", fieldName).Key(string(name))
			a.deny(field.Invalid(path, existing.String(), fmt.Sprintf(
				"must equal the annotation, which requests %s for each pod; change or remove one of them", amount.String())), nil)
		}
		if limited {
			return
		}
	}
	if !limited || limit.Cmp(amount) != 0 || request.Cmp(amount) != 0 {
		setKey(&c.Resources.Limits, name, amount)
		setKey(&c.Resources.Requests, name, amount)
	}
	a.applied = append(a.applied, t)
}
