package plan

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeTargets are volumes and their mounts, which are applied together.
var volumeTargets = targetKind{
	planned: (*applier).plannedVolumeTargets,
	apply:   (*applier).applyVolumes,
	recorded: func(r *Record, add func(target, string)) {
		for name, digest := range r.Volumes {
			add(volumeTarget{name}, digest)
		}
		eachByContainer(r.Mounts, func(container, path string) target { return mountTarget{container, path} }, add)
	},
}

// volumeTarget is a volume of the pod.
type volumeTarget struct{ name string }

func (t volumeTarget) currentValue(p *podTemplate) any {
	if v := p.findVolume(t.name); v != nil {
		return *v
	}
	return nil
}

func (t volumeTarget) removeFrom(p *podTemplate) {
	spec := &p.template.Spec
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == t.name })
}

func (t volumeTarget) recordDigest(r *Record, digest string) { r.Volumes.set(t.name, digest) }

// mountTarget is a volume mount of a container.
type mountTarget struct{ container, path string }

func (t mountTarget) currentValue(p *podTemplate) any {
	c := p.containersByName[t.container]
	if c == nil {
		return nil
	}
	for _, m := range c.VolumeMounts {
		if t.matchesMount(m) {
			return m
		}
	}
	return nil
}

func (t mountTarget) removeFrom(p *podTemplate) {
	if c := p.containersByName[t.container]; c != nil {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, t.matchesMount)
	}
}

func (t mountTarget) recordDigest(r *Record, digest string) {
	setByContainer(&r.Mounts, t.container, t.path, digest)
}

func (t mountTarget) matchesMount(m corev1.VolumeMount) bool {
	return path.Clean(m.MountPath) == t.path
}

func (a *applier) plannedVolumeTargets() []target {
	var targets []target
	for _, v := range a.plan.Volumes {
		targets = append(targets, volumeTarget{v.Name})
		for _, m := range v.Mounts {
			targets = append(targets,
				a.forEachTrainingContainer(func(name string) target { return mountTarget{name, m.MountPath} })...)
		}
	}
	return targets
}

// applyVolumes adds the volumes and mounts of the plan. A volume with mounts is not added if no
// container can mount it.
func (a *applier) applyVolumes() {
	for i := range a.plan.Volumes {
		v := &a.plan.Volumes[i]
		used := len(v.Mounts) == 0
		for _, c := range a.trainingContainers() {
			for _, m := range v.Mounts {
				m.Name = v.Name
				if a.applyMount(c, m, v.Policy) {
					used = true
				}
			}
		}
		if used {
			a.applyVolume(v)
		} else if t := (volumeTarget{v.Name}); a.owned[t] {
			t.removeFrom(a.pod)
		}
	}
}

// applyMount reports whether the container mounts the volume.
func (a *applier) applyMount(c *container, planned corev1.VolumeMount, policy ConflictPolicy) bool {
	t := mountTarget{c.Name, planned.MountPath}
	i := slices.IndexFunc(c.VolumeMounts, t.matchesMount)
	if i < 0 {
		c.VolumeMounts = append(c.VolumeMounts, planned)
		a.applied = append(a.applied, t)
		return true
	}
	existing := &c.VolumeMounts[i]
	if a.owned[t] {
		*existing = planned
		a.applied = append(a.applied, t)
	}
	if existing.Name == planned.Name {
		return true
	}
	mountPath := c.path.Child("volumeMounts").Index(i).Child("mountPath")
	switch policy {
	case Required:
		a.deny(field.Invalid(mountPath, existing.MountPath,
			"the path is reserved for a Rollcall volume; use another mountPath"), nil)
	case Default:
		a.addWarning(mountPath, "keeping your volume %s; Rollcall would mount %s", existing.Name, planned.Name)
	}
	return false
}

func (a *applier) applyVolume(v *Volume) {
	t := volumeTarget{v.Name}
	existing := a.pod.findVolume(v.Name)
	switch {
	case existing == nil:
		a.pod.template.Spec.Volumes = append(a.pod.template.Spec.Volumes, v.Volume)
		a.applied = append(a.applied, t)
	case a.owned[t]:
		if !equality.Semantic.DeepEqual(*existing, v.Volume) {
			*existing = v.Volume
		}
		a.applied = append(a.applied, t)
	case !equality.Semantic.DeepEqual(*existing, v.Volume):
		a.addReserved(templatePath.Child("spec", "volumes").Key(v.Name), v.Name, "volume")
	}
}
