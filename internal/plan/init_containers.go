package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

var initContainerTargets = targetKind{
	planned: (*applier).plannedInitContainerTargets,
	apply:   (*applier).applyInitContainers,
	recorded: func(r *Record, add func(target, string)) {
		for name, digest := range r.InitContainers {
			add(initContainerTarget{name}, digest)
		}
		eachByContainer(r.Inherited, func(container, field string) target { return inheritedTarget{container, field} }, add)
	},
}

// initContainerTarget is the command and the restart policy of an init container. Its variables, its
// mounts and the values that it inherits are targets of their own. Other webhooks can therefore add
// values of any kind.
type initContainerTarget struct{ name string }

func (t initContainerTarget) currentValue(p *podTemplate) any {
	c := p.containersByName[t.name]
	if c == nil || !c.isInit {
		return nil
	}
	return newInitContainerValue(c.Container)
}

// formerValue returns the complete init container without its variables and its pull policy, whose digest was
// recorded before docs/adr/0031-values-of-other-webhooks.md.
func (t initContainerTarget) formerValue(p *podTemplate) any {
	c := p.containersByName[t.name]
	if c == nil || !c.isInit {
		return nil
	}
	stripped := *c.Container
	stripped.Env, stripped.ImagePullPolicy = nil, ""
	return stripped
}

func (t initContainerTarget) removeFrom(p *podTemplate) {
	spec := &p.template.Spec
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == t.name })
	p.rebuildIndex()
}

func (t initContainerTarget) recordDigest(r *Record, digest string) {
	r.InitContainers.set(t.name, digest)
}

// initContainerValue is the value of an initContainerTarget.
type initContainerValue struct {
	Command       []string                       `json:"command"`
	Args          []string                       `json:"args,omitempty"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`
}

func newInitContainerValue(c *corev1.Container) initContainerValue {
	return initContainerValue{Command: c.Command, Args: c.Args, RestartPolicy: c.RestartPolicy}
}

func (a *applier) plannedInitContainerTargets() []target {
	var targets []target
	for _, i := range a.plan.InitContainers {
		targets = append(targets, initContainerTarget{i.Name})
		for _, f := range inheritedFields {
			targets = append(targets, inheritedTarget{i.Name, f.name})
		}
		for _, m := range i.Mounts {
			targets = append(targets, mountTarget{i.Name, m.MountPath})
		}
	}
	return targets
}

// applyInitContainers adds the init containers of the plan.
func (a *applier) applyInitContainers() {
	for i := range a.plan.InitContainers {
		planned := a.buildInitContainer(&a.plan.InitContainers[i])
		value := newInitContainerValue(&planned)
		t := initContainerTarget{planned.Name}
		existing := a.pod.containersByName[planned.Name]
		switch {
		case existing == nil:
			spec := &a.pod.template.Spec
			spec.InitContainers = append(spec.InitContainers, planned)
			a.pod.rebuildIndex()
		case a.owned[t] || existing.isInit && equality.Semantic.DeepEqual(t.currentValue(a.pod), value):
			existing.Command, existing.Args, existing.RestartPolicy = value.Command, value.Args, value.RestartPolicy
		default:
			a.denyInitContainer(t, existing, &planned)
			continue
		}
		a.applied = append(a.applied, t)
		c := a.pod.containersByName[planned.Name]
		a.applyInherited(c, &planned)
		for _, m := range planned.VolumeMounts {
			a.applyInitContainerMount(c, m)
		}
	}
}

// denyInitContainer reports a container with the name of a planned init container.
func (a *applier) denyInitContainer(t initContainerTarget, existing *container, planned *corev1.Container) {
	if _, recorded := a.recorded[t]; !recorded || !existing.isInit {
		object := "container"
		if existing.isInit {
			object = "init container"
		}
		a.addReserved(existing.path.Child("name"), planned.Name, object)
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
			a.addChanged(existing.path.Child(f.name), strings.Join(f.current, " "), existing.path, "init container")
			return
		}
	}
	a.addChanged(existing.path.Child("restartPolicy"), string(ptr.Deref(existing.RestartPolicy, "")),
		existing.path, "init container")
}

// applyInitContainerMount adds a mount of the plan to an init container of the plan.
func (a *applier) applyInitContainerMount(c *container, planned corev1.VolumeMount) {
	t := mountTarget{c.Name, planned.MountPath}
	i := slices.IndexFunc(c.VolumeMounts, t.matchesMount)
	switch {
	case i < 0:
		c.VolumeMounts = append(c.VolumeMounts, planned)
	case a.owned[t] || newMountValue(&c.VolumeMounts[i]) == newMountValue(&planned):
		setMount(&c.VolumeMounts[i], &planned)
	default:
		a.addChanged(c.path.Child("volumeMounts").Index(i), c.VolumeMounts[i].Name, c.path, "init container")
		return
	}
	a.applied = append(a.applied, t)
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
		Resources:                selectResources(training.Resources),
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
