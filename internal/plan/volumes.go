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
		for name, digest := range r.SizeLimits {
			add(sizeLimitTarget{name}, digest)
		}
		eachByContainer(r.Mounts, func(container, path string) target { return mountTarget{container, path} }, add)
	},
}

// volumeTarget is a volume of the pod without the size limit, which is a target of its own.
type volumeTarget struct{ name string }

func (t volumeTarget) currentValue(p *podTemplate) any {
	if v := p.findVolume(t.name); v != nil {
		return withoutSizeLimit(v)
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
			return newMountValue(&m)
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

// mountValue contains the fields of a mount that a plan sets. Other webhooks can set others.
type mountValue struct {
	Name      string `json:"name"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	MountPath string `json:"mountPath"`
	SubPath   string `json:"subPath,omitempty"`
}

func newMountValue(m *corev1.VolumeMount) mountValue {
	return mountValue{Name: m.Name, ReadOnly: m.ReadOnly, MountPath: path.Clean(m.MountPath), SubPath: m.SubPath}
}

// setMount sets the fields of mountValue.
func setMount(m, planned *corev1.VolumeMount) {
	m.Name, m.MountPath, m.SubPath, m.ReadOnly = planned.Name, planned.MountPath, planned.SubPath, planned.ReadOnly
}

func (a *applier) plannedVolumeTargets() []target {
	var targets []target
	for _, v := range a.plan.Volumes {
		targets = append(targets, volumeTarget{v.Name}, sizeLimitTarget{v.Name})
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
		used := len(v.Mounts) == 0 || a.isMountedByInitContainer(v.Name)
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

// isMountedByInitContainer reports whether an init container of the plan mounts the volume.
func (a *applier) isMountedByInitContainer(volume string) bool {
	return slices.ContainsFunc(a.plan.InitContainers, func(c InitContainer) bool {
		return slices.ContainsFunc(c.Mounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	})
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
		setMount(existing, &planned)
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
	_, recorded := a.recorded[t]
	volumePath := templatePath.Child("spec", "volumes").Key(v.Name)
	switch {
	case existing == nil:
		a.pod.template.Spec.Volumes = append(a.pod.template.Spec.Volumes, v.Volume)
		existing = a.pod.findVolume(v.Name)
	case a.owned[t]:
		limit := sizeLimit(existing)
		*existing = *v.DeepCopy()
		setSizeLimit(existing, limit)
	case !recorded:
		if !equality.Semantic.DeepEqual(*existing, v.Volume) {
			a.addReserved(volumePath, v.Name, "volume")
		}
		return // the volume belongs to the user
	case !equality.Semantic.DeepEqual(withoutSizeLimit(existing), withoutSizeLimit(&v.Volume)):
		a.addChanged(volumePath, v.Name, volumePath, "volume")
		return
	}
	a.applied = append(a.applied, t)
	a.applySizeLimit(existing, sizeLimit(&v.Volume))
}
