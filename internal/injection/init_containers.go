package injection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"rollcall.training/plan"
)

// readInitContainer returns the command and the restart policy of an init container. Its variables, its
// mounts and the values that it inherits are values of their own. Other webhooks can therefore add
// values of any kind.
func (p *podTemplate) readInitContainer(k key) any {
	if c := p.containersByName[k.name]; c != nil && c.isInit {
		return newInitContainerValue(c.Container)
	}
	return nil
}

// readFormerInitContainer returns the complete init container without its variables and its pull policy, whose digest
// was recorded before each of its values
// had its own (docs/adr/0002-user-values.md).
func (p *podTemplate) readFormerInitContainer(k key) any {
	c := p.containersByName[k.name]
	if c == nil || !c.isInit {
		return nil
	}
	stripped := *c.Container
	stripped.Env, stripped.ImagePullPolicy = nil, ""
	return stripped
}

func (p *podTemplate) removeInitContainer(k key) {
	spec := &p.template.Spec
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == k.name })
	p.rebuildIndex()
}

// initContainerValue is the value that readInitContainer returns.
type initContainerValue struct {
	Command       []string                       `json:"command"`
	Args          []string                       `json:"args,omitempty"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`
}

func newInitContainerValue(c *corev1.Container) initContainerValue {
	return initContainerValue{Command: c.Command, Args: c.Args, RestartPolicy: c.RestartPolicy}
}

// applyInitContainers adds the init containers of the plan.
func (a *applier) applyInitContainers() {
	for i := range a.plan.InitContainers {
		planned := a.buildInitContainer(&a.plan.InitContainers[i])
		value, existing := newInitContainerValue(&planned), a.pod.containersByName[planned.Name]
		if existing != nil && a.plan.InitContainers[i].Image != "" {
			planned.Image, planned.ImagePullPolicy = existing.Image, existing.ImagePullPolicy
		}
		isOwned := a.owns(kindInitContainer, "", planned.Name)
		isSame := existing != nil && existing.isInit &&
			equality.Semantic.DeepEqual(newInitContainerValue(existing.Container), value)
		switch decide(relate(existing != nil, isOwned || isSame, isSame), plan.Required) {
		case deny:
			a.denyInitContainer(existing, &planned)
			continue
		case write:
			if existing == nil {
				spec := &a.pod.template.Spec
				spec.InitContainers = append(spec.InitContainers, planned)
				a.pod.rebuildIndex()
			} else {
				existing.Command, existing.Args, existing.RestartPolicy = value.Command, value.Args, value.RestartPolicy
			}
		}
		a.markApplied(kindInitContainer, "", planned.Name)
		c := a.pod.containersByName[planned.Name]
		a.applyInherited(c, &planned)
		for _, m := range planned.VolumeMounts {
			a.applyInitContainerMount(c, m)
		}
	}
}

// denyInitContainer reports a container with the name of a planned init container.
func (a *applier) denyInitContainer(existing *container, planned *corev1.Container) {
	if !a.old.Has(kindInitContainer, "", planned.Name) || !existing.isInit {
		object := "container"
		if existing.isInit {
			object = "init container"
		}
		a.denyReserved(existing.path.Child("name"), planned.Name, object)
		return
	}
	for _, f := range []struct {
		name            string
		current, wanted []string
	}{
		{name: "command", current: existing.Command, wanted: planned.Command},
		{name: "args", current: existing.Args, wanted: planned.Args},
	} {
		if !slices.Equal(f.current, f.wanted) {
			a.denyChanged(existing.path.Child(f.name), strings.Join(f.current, " "), existing.path, "init container")
			return
		}
	}
	a.denyChanged(existing.path.Child("restartPolicy"), string(ptr.Deref(existing.RestartPolicy, "")),
		existing.path, "init container")
}

// applyInitContainerMount adds a mount of the plan to an init container of the plan.
func (a *applier) applyInitContainerMount(c *container, planned corev1.VolumeMount) {
	i, isSame := c.findMount(planned.MountPath), false
	if i >= 0 {
		isSame = newMountValue(&c.VolumeMounts[i]) == newMountValue(&planned)
	}
	isOwned := isSame || a.owns(kindMount, c.Name, planned.MountPath)
	if decide(relate(i >= 0, isOwned, isSame), plan.Required) == deny {
		a.denyChanged(c.path.Child("volumeMounts").Index(i), c.VolumeMounts[i].Name, c.path, "init container")
		return
	}
	c.setMount(i, planned)
	a.markApplied(kindMount, c.Name, planned.MountPath)
}

// buildInitContainer sets the defaults of the API server, so that a second admission sees no
// difference.
func (a *applier) buildInitContainer(i *plan.InitContainer) corev1.Container {
	training := a.pod.containersByName[a.gang.Containers[0].Name]
	c := corev1.Container{
		Name:                     i.Name,
		Image:                    training.Image,
		Command:                  i.Command,
		VolumeMounts:             i.Mounts,
		ImagePullPolicy:          training.ImagePullPolicy,
		SecurityContext:          training.SecurityContext.DeepCopy(),
		Resources:                selectResources(training.Resources),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	if i.Image != "" {
		c.Image, c.ImagePullPolicy = i.Image, corev1.PullIfNotPresent
	}
	if i.Sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		// A sidecar runs together with the training container, so its resources are added.
		c.Resources = minimalResources(training.Resources)
	}
	return c
}
