package injection

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/plan"
)

// readResource returns an extended resource of a container, which is its limit and its request.
func (c *container) readResource(name string) any {
	if limit, ok := c.Resources.Limits[corev1.ResourceName(name)]; ok {
		return limit.String()
	}
	return nil
}

func (c *container) removeResource(name string) {
	delete(c.Resources.Limits, corev1.ResourceName(name))
	delete(c.Resources.Requests, corev1.ResourceName(name))
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
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	existing, fieldName := limit, "limits"
	if !limited {
		existing, fieldName = request, "requests"
	}
	isOwned, isSame := a.owns(KindResource, c.Name, string(name)), existing.Cmp(amount) == 0
	o := decide(relate(limited || requested, isOwned, isSame), plan.Required)
	if o == deny {
		path := c.path.Child("resources", fieldName).Key(string(name))
		a.deny(field.Invalid(path, existing.String(), fmt.Sprintf(
			"must equal the annotation, which requests %s for each pod; change or remove one of them", amount.String())), nil)
	}
	if o != write && limited {
		return
	}
	if !limited || limit.Cmp(amount) != 0 || request.Cmp(amount) != 0 {
		SetKey(&c.Resources.Limits, name, amount)
		SetKey(&c.Resources.Requests, name, amount)
	}
	a.markApplied(KindResource, c.Name, string(name))
}
