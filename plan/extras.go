package plan

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes adds the plan's volumes and their mounts. A volume that is there to be
// mounted, and that no container would mount, is not added.
func (a *applier) volumes() {
	for i := range a.plan.Volumes {
		v := &a.plan.Volumes[i]
		used := len(v.Mounts) == 0
		for _, t := range a.gang.Containers {
			for _, m := range v.Mounts {
				m.Name = v.Name
				if a.mount(a.pod.byName[t.Name], m, v.Policy) {
					used = true
				}
			}
		}
		if used {
			a.volume(v)
		} else if s := (slot{kind: slotVolume, name: v.Name}); a.mine[s] {
			a.pod.remove(s)
		}
	}
}

// mount reports whether the container has the mount.
func (a *applier) mount(c *container, want corev1.VolumeMount, policy Policy) bool {
	s := slot{slotMount, c.Name, want.MountPath}
	for i := range c.VolumeMounts {
		have := &c.VolumeMounts[i]
		if path.Clean(have.MountPath) != want.MountPath {
			continue
		}
		if a.mine[s] {
			*have = want
			a.ours = append(a.ours, s)
		}
		if have.Name == want.Name {
			return true
		}
		at := c.path.Child("volumeMounts").Index(i).Child("mountPath") // the user put something there
		switch policy {
		case Own:
			a.errs = append(a.errs, field.Invalid(at, have.MountPath, "Rollcall puts what the gang needs there; mount yours elsewhere"))
		case Default:
			a.warn(at, "your volume %s stays; Rollcall would mount %s", have.Name, want.Name)
		}
		return false
	}
	c.VolumeMounts = append(c.VolumeMounts, want)
	a.ours = append(a.ours, s)
	return true
}

func (a *applier) volume(v *Volume) {
	s := slot{kind: slotVolume, name: v.Name}
	have := a.pod.volume(v.Name)
	switch {
	case have == nil:
		a.pod.template.Spec.Volumes = append(a.pod.template.Spec.Volumes, v.Volume)
		a.ours = append(a.ours, s)
	case a.mine[s]:
		if !equality.Semantic.DeepEqual(*have, v.Volume) {
			*have = v.Volume
		}
		a.ours = append(a.ours, s)
	case !equality.Semantic.DeepEqual(*have, v.Volume):
		path := templatePath.Child("spec", "volumes").Key(v.Name)
		a.errs = append(a.errs, field.Invalid(path, v.Name, "the name is reserved for a volume of Rollcall's; rename yours"))
	}
}

// resources sets limits and requests. The API server demands of an extended
// resource that both be there and equal.
func (a *applier) resources() {
	for _, r := range a.plan.Resources {
		want := *resource.NewQuantity(r.Count, resource.DecimalSI)
		for _, t := range a.gang.Containers {
			a.resource(a.pod.byName[t.Name], r.Name, want)
		}
	}
}

func (a *applier) resource(c *container, name corev1.ResourceName, want resource.Quantity) {
	s := slot{slotResource, c.Name, string(name)}
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	if (limited || requested) && !a.mine[s] {
		have, at := limit, "limits"
		if !limited {
			have, at = request, "requests"
		}
		if have.Cmp(want) != 0 {
			a.errs = append(a.errs, field.Invalid(c.path.Child("resources", at).Key(string(name)), have.String(),
				fmt.Sprintf("the annotation asks for %s of each pod; make the two equal, or remove one", want.String())))
		}
		if limited {
			return
		}
	}
	if !limited || limit.Cmp(want) != 0 || request.Cmp(want) != 0 {
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Limits[name], c.Resources.Requests[name] = want, want
	}
	a.ours = append(a.ours, s)
}

func (a *applier) labels() {
	for _, l := range a.plan.PodLabels {
		s := slot{kind: slotLabel, name: l.Name}
		have, ok := a.pod.template.Labels[l.Name]
		switch {
		case !ok || a.mine[s]:
			if a.pod.template.Labels == nil {
				a.pod.template.Labels = map[string]string{}
			}
			a.pod.template.Labels[l.Name] = l.Value
			a.ours = append(a.ours, s)
		case have == l.Value || l.Policy == Yield:
		case l.Policy == Default:
			a.warn(templatePath.Child("metadata", "labels").Key(l.Name), "your value %q stays; Rollcall would set %q", have, l.Value)
		default:
			a.errs = append(a.errs, field.Invalid(templatePath.Child("metadata", "labels").Key(l.Name), have,
				fmt.Sprintf("must be %q, by which the gang's pods are found; remove the label", l.Value)))
		}
	}
}

func (a *applier) searches() {
	for _, d := range a.plan.Searches {
		s := slot{kind: slotSearch, name: d}
		if a.pod.value(s) == nil {
			spec := &a.pod.template.Spec
			if spec.DNSConfig == nil {
				spec.DNSConfig = &corev1.PodDNSConfig{}
			}
			spec.DNSConfig.Searches = append(spec.DNSConfig.Searches, d)
		} else if !a.mine[s] {
			continue // the user's own
		}
		a.ours = append(a.ours, s)
	}
}
