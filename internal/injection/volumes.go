package injection

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/plan"
)

// readVolume returns a volume without the size limit, which is a value of its own.
func (p *podTemplate) readVolume(k key) any {
	if v := p.findVolume(k.name); v != nil {
		return withoutSizeLimit(v)
	}
	return nil
}

func (p *podTemplate) removeVolume(k key) {
	spec := &p.template.Spec
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == k.name })
}

func (c *container) readMount(path string) any {
	if i := c.findMount(path); i >= 0 {
		return newMountValue(&c.VolumeMounts[i])
	}
	return nil
}

func (c *container) removeMount(mountPath string) {
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, isMountedAt(mountPath))
}

// findMount returns the index of the mount at a path; -1 without a mount.
func (c *container) findMount(mountPath string) int {
	return slices.IndexFunc(c.VolumeMounts, isMountedAt(mountPath))
}

func isMountedAt(mountPath string) func(corev1.VolumeMount) bool {
	return func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == mountPath }
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

// setMount sets the fields of mountValue in the i-th mount, or adds a mount if i is negative.
func (c *container) setMount(i int, planned corev1.VolumeMount) {
	if i < 0 {
		c.VolumeMounts = append(c.VolumeMounts, planned)
		return
	}
	m := &c.VolumeMounts[i]
	m.Name, m.MountPath, m.SubPath, m.ReadOnly = planned.Name, planned.MountPath, planned.SubPath, planned.ReadOnly
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
				used = a.applyMount(c, m, v.Policy) || used
			}
		}
		if used {
			a.applyVolume(v)
		}
	}
}

// isMountedByInitContainer reports whether an init container of the plan mounts the volume.
func (a *applier) isMountedByInitContainer(volume string) bool {
	return slices.ContainsFunc(a.plan.InitContainers, func(c plan.InitContainer) bool {
		return slices.ContainsFunc(c.Mounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	})
}

// applyMount reports whether the container mounts the volume.
func (a *applier) applyMount(c *container, planned corev1.VolumeMount, policy plan.ConflictPolicy) bool {
	existing, i := planned, c.findMount(planned.MountPath)
	if i >= 0 {
		existing = c.VolumeMounts[i]
	}
	isOwned, isSame := a.owns(kindMount, c.Name, planned.MountPath), existing.Name == planned.Name
	switch o := decide(relate(i >= 0, isOwned, isSame), policy); o {
	case keep:
		return isSame
	case write:
		c.setMount(i, planned)
		a.markApplied(kindMount, c.Name, planned.MountPath)
		return true
	case deny:
		a.deny(field.Invalid(c.mountPath(i), existing.MountPath,
			"the path is reserved for a Rollcall volume; use another mountPath"), nil)
	default:
		a.remark(o, c.mountPath(i), "keeping your volume %s; Rollcall would mount %s", existing.Name, planned.Name)
	}
	return false
}

func (c *container) mountPath(i int) *field.Path {
	return c.path.Child("volumeMounts").Index(i).Child("mountPath")
}

// applyVolume adds a volume of the plan. A volume of the user with the same name and content is used.
func (a *applier) applyVolume(v *plan.Volume) {
	existing := a.pod.findVolume(v.Name)
	if existing != nil && existing.Image != nil && v.Image != nil {
		v.Image = existing.Image.DeepCopy() // a new release must not change the pods of a running gang
	}
	recorded, isOwned, isSame := a.old.Has(KindVolume, "", v.Name), a.owns(KindVolume, "", v.Name), false
	switch {
	case existing == nil:
	case recorded:
		isSame = equality.Semantic.DeepEqual(withoutSizeLimit(existing), withoutSizeLimit(&v.Volume))
		isOwned = isOwned || isSame // an edit was reverted
	default:
		isSame = equality.Semantic.DeepEqual(*existing, v.Volume)
	}
	switch decide(relate(existing != nil, isOwned, isSame), plan.Required) {
	case keep:
		return // the volume belongs to the user
	case deny:
		volumePath := templatePath.Child("spec", "volumes").Key(v.Name)
		if recorded {
			a.denyChanged(volumePath, v.Name, volumePath, "volume")
		} else {
			a.denyReserved(volumePath, v.Name, "volume")
		}
		return
	}
	if existing == nil {
		a.pod.template.Spec.Volumes = append(a.pod.template.Spec.Volumes, v.Volume)
		existing = a.pod.findVolume(v.Name)
	} else {
		limit := sizeLimit(existing)
		*existing = *v.DeepCopy()
		setSizeLimit(existing, limit)
	}
	a.markApplied(KindVolume, "", v.Name)
	a.applySizeLimit(existing, sizeLimit(&v.Volume))
}
