package injection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"rollcall.training/plan"
)

// readInherited returns a value that an init container of the plan inherits from the first training
// container. If a user or another webhook changes the value afterward, it is kept.
func (c *container) readInherited(name string) any {
	for _, f := range inheritedFields {
		if f.name == name {
			return f.read(c.Container)
		}
	}
	return nil
}

// keepInherited changes nothing, because the value is removed together with its container.
func (c *container) keepInherited(string) {}

// inheritedField is a field that an init container inherits.
type inheritedField struct {
	name string
	read func(c *corev1.Container) any
	copy func(to, from *corev1.Container)
}

// inheritedFields are the values that an init container inherits. The pull policy is copied with the
// image and is not compared, because its default depends on the tag of the image.
var inheritedFields = []inheritedField{
	{
		name: "image",
		read: func(c *corev1.Container) any { return c.Image },
		copy: func(to, from *corev1.Container) { to.Image, to.ImagePullPolicy = from.Image, from.ImagePullPolicy },
	},
	{
		name: "resources",
		read: func(c *corev1.Container) any { return c.Resources },
		copy: func(to, from *corev1.Container) { to.Resources = from.Resources },
	},
	{
		name: "securityContext",
		read: func(c *corev1.Container) any { return c.SecurityContext },
		copy: func(to, from *corev1.Container) { to.SecurityContext = from.SecurityContext },
	},
}

// applyInherited copies the inherited values of a planned init container, unless they were changed
// after an earlier injection.
func (a *applier) applyInherited(c *container, planned *corev1.Container) {
	for _, f := range inheritedFields {
		isSame := equality.Semantic.DeepEqual(f.read(c.Container), f.read(planned))
		isOwned := !isSame && a.owns(kindInherited, c.Name, f.name)
		if decide(relate(true, isOwned, isSame), plan.KeepUser) == write {
			f.copy(c.Container, planned)
		}
		if isOwned || isSame {
			a.markApplied(kindInherited, c.Name, f.name)
		}
	}
}

// inheritedResources are the resources that a quota can require for all containers.
var inheritedResources = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
}

// selectResources returns the inheritedResources of a container, without accelerators. An init
// container with these resources does not increase the resources of its pod, because Kubernetes uses
// the maximum of init containers and containers.
func selectResources(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	selectFrom := func(list corev1.ResourceList) corev1.ResourceList {
		var selected corev1.ResourceList
		for _, name := range inheritedResources {
			if amount, ok := list[name]; ok {
				SetKey(&selected, name, amount.DeepCopy())
			}
		}
		return selected
	}
	return corev1.ResourceRequirements{Limits: selectFrom(r.Limits), Requests: selectFrom(r.Requests)}
}

// minimalResources returns the resources of a mostly idle container. It has the same limits and
// requests as the model, because a quota requires them for all containers, and a pod of the QoS class
// Guaranteed has equal limits and requests.
func minimalResources(model corev1.ResourceRequirements) corev1.ResourceRequirements {
	minimum := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10m"),
		corev1.ResourceMemory:           resource.MustParse("16Mi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("16Mi"),
	}
	resources := selectResources(model)
	for _, list := range []corev1.ResourceList{resources.Limits, resources.Requests} {
		for name := range list {
			list[name] = minimum[name].DeepCopy()
		}
	}
	return resources
}
