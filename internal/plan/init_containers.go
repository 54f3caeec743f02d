package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

var initContainerTargets = targetKind{
	planned: (*applier).plannedInitContainerTargets,
	apply:   (*applier).applyInitContainers,
	recorded: func(r *Record, add func(target, string)) {
		for name, digest := range r.InitContainers {
			add(initContainerTarget{name}, digest)
		}
	},
}

// initContainerTarget is an init container without its variables, which are targets of their own.
type initContainerTarget struct{ name string }

func (t initContainerTarget) currentValue(p *podTemplate) any {
	if c := p.containersByName[t.name]; c != nil {
		return withoutEnvAndPullPolicy(c.Container)
	}
	return nil
}

func (t initContainerTarget) removeFrom(p *podTemplate) {
	spec := &p.template.Spec
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == t.name })
	p.rebuildIndex()
}

func (t initContainerTarget) recordDigest(r *Record, digest string) {
	r.InitContainers.set(t.name, digest)
}

func (a *applier) plannedInitContainerTargets() []target {
	var targets []target
	for _, i := range a.plan.InitContainers {
		targets = append(targets, initContainerTarget{i.Name})
	}
	return targets
}

// applyInitContainers adds the init containers of the plan.
func (a *applier) applyInitContainers() {
	for i := range a.plan.InitContainers {
		planned := a.buildInitContainer(&a.plan.InitContainers[i])
		t := initContainerTarget{planned.Name}
		existing := a.pod.containersByName[planned.Name]
		switch {
		case existing == nil:
			spec := &a.pod.template.Spec
			spec.InitContainers = append(spec.InitContainers, planned)
			a.pod.rebuildIndex()
		case a.owned[t] || existing.isInit && sameInitContainer(existing.Container, &planned):
			planned.Env = existing.Env
			*existing.Container = planned
		default:
			object := "container"
			if existing.isInit {
				object = "init container"
			}
			a.addReserved(existing.path.Child("name"), planned.Name, object)
			continue
		}
		a.applied = append(a.applied, t)
	}
}

func sameInitContainer(a, b *corev1.Container) bool {
	return equality.Semantic.DeepEqual(withoutEnvAndPullPolicy(a), withoutEnvAndPullPolicy(b))
}

// withoutEnvAndPullPolicy returns a container without its variables, and without the pull policy,
// whose default depends on the tag of the image.
func withoutEnvAndPullPolicy(c *corev1.Container) corev1.Container {
	stripped := *c
	stripped.Env, stripped.ImagePullPolicy = nil, ""
	return stripped
}

// buildInitContainer sets the defaults of the API server, so that a second admission sees no
// difference.
func (a *applier) buildInitContainer(i *InitContainer) corev1.Container {
	training := a.firstTrainingContainer()
	c := corev1.Container{
		Name:                     i.Name,
		Image:                    training.Image,
		Command:                  i.Command,
		VolumeMounts:             i.Mounts,
		ImagePullPolicy:          training.ImagePullPolicy,
		SecurityContext:          training.SecurityContext.DeepCopy(),
		Resources:                selectCPUAndMemory(training.Resources),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	if i.Sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		// A sidecar runs together with the training container, so its resources are added.
		c.Resources = minimalResources(training.Resources)
	}
	return c
}

// selectCPUAndMemory returns the CPU and memory of a container, without accelerators. An init
// container with these resources does not increase the resources of its pod, because Kubernetes uses
// the maximum of init containers and containers.
func selectCPUAndMemory(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	selectFrom := func(list corev1.ResourceList) corev1.ResourceList {
		var selected corev1.ResourceList
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount, ok := list[name]; ok {
				setQuantity(&selected, name, amount.DeepCopy())
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
		corev1.ResourceCPU:    resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	resources := selectCPUAndMemory(model)
	for _, list := range []corev1.ResourceList{resources.Limits, resources.Requests} {
		for name := range list {
			list[name] = minimum[name].DeepCopy()
		}
	}
	return resources
}
