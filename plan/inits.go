package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// inits adds the plan's init containers, before anything else: they are served like
// those of the user.
func (a *applier) inits() {
	for i := range a.plan.Inits {
		want := a.initContainer(&a.plan.Inits[i])
		s := slot{slotInit, want.Name, ""}
		have := a.pod.byName[want.Name]
		switch {
		case have == nil:
			spec := &a.pod.template.Spec
			spec.InitContainers = append(spec.InitContainers, want)
			a.pod.reindex()
		case a.mine[s] || have.init && equality.Semantic.DeepEqual(skeleton(have.Container), skeleton(&want)):
			want.Env = have.Env
			*have.Container = want
		default:
			a.errs = append(a.errs, field.Invalid(have.path.Child("name"), want.Name, "the name is reserved for an init container of Rollcall's; rename yours"))
			continue
		}
		a.ours = append(a.ours, s)
	}
}

// initContainer spells out what the API server would add, so that a second
// admission sees no difference.
func (a *applier) initContainer(i *Init) corev1.Container {
	like := a.pod.byName[a.gang.Containers[0].Name]
	c := corev1.Container{
		Name: i.Name, Image: like.Image, Command: i.Command, VolumeMounts: i.Mounts,
		ImagePullPolicy:          like.ImagePullPolicy,
		SecurityContext:          like.SecurityContext.DeepCopy(),
		Resources:                ordinary(like.Resources),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	if i.Sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		c.Resources = little(like.Resources) // beside the container, not before it: all of it would count twice
	}
	return c
}

// ordinary are the CPU and memory of a container. An init container within those
// costs its pod nothing, since the larger of the two counts; accelerators it has no
// use for.
func ordinary(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	only := func(list corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := list[name]; ok {
				out[name] = q.DeepCopy()
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return corev1.ResourceRequirements{Limits: only(r.Limits), Requests: only(r.Requests)}
}

// little is what a container needs that mostly sleeps, of those resources that another
// one names: a quota wants them of every container, and a pod of the class Guaranteed
// has limits and requests alike.
func little(like corev1.ResourceRequirements) corev1.ResourceRequirements {
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	out := ordinary(like)
	for _, list := range []corev1.ResourceList{out.Limits, out.Requests} {
		for name := range list {
			list[name] = little[name].DeepCopy()
		}
	}
	return out
}

// command gives the first training container something to run, unless its user did.
func (a *applier) command() {
	if len(a.plan.Command) == 0 {
		return
	}
	c := a.pod.byName[a.gang.Containers[0].Name]
	s := slot{slotCommand, c.Name, ""}
	switch {
	case a.mine[s] && len(c.Args) > 0: // the user's since, and meant for the image's own command
		a.pod.remove(s)
		return
	case !a.mine[s] && len(c.Command)+len(c.Args) > 0:
		return
	}
	c.Command = slices.Clone(a.plan.Command)
	a.ours = append(a.ours, s)
}
