package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sizeLimitTarget is the size limit of an emptyDir volume. It is not part of the volumeTarget, because
// cluster policies set and change size limits.
type sizeLimitTarget struct{ volume string }

func (t sizeLimitTarget) currentValue(p *podTemplate) any {
	v := p.findVolume(t.volume)
	if v == nil || sizeLimit(v) == nil {
		return nil
	}
	return sizeLimit(v)
}

func (t sizeLimitTarget) removeFrom(p *podTemplate) {
	if v := p.findVolume(t.volume); v != nil {
		setSizeLimit(v, nil)
	}
}

func (t sizeLimitTarget) recordDigest(r *Record, digest string) { r.SizeLimits.set(t.volume, digest) }

// sizeLimit returns the size limit of a volume; nil without a limit, and for other volumes than
// emptyDir.
func sizeLimit(v *corev1.Volume) *resource.Quantity {
	if v.EmptyDir == nil {
		return nil
	}
	return v.EmptyDir.SizeLimit
}

func setSizeLimit(v *corev1.Volume, limit *resource.Quantity) {
	if v.EmptyDir != nil {
		v.EmptyDir.SizeLimit = limit
	}
}

func withoutSizeLimit(v *corev1.Volume) corev1.Volume {
	stripped := *v.DeepCopy()
	setSizeLimit(&stripped, nil)
	return stripped
}

// applySizeLimit sets the size limit of a volume of the plan. A limit that a user or another webhook set
// after an earlier injection is kept with a warning.
func (a *applier) applySizeLimit(v *corev1.Volume, planned *resource.Quantity) {
	t := sizeLimitTarget{v.Name}
	existing := sizeLimit(v)
	isSame := existing != nil && planned != nil && existing.Cmp(*planned) == 0
	if existing != nil && !isSame && !a.owned[t] {
		wanted := "no limit"
		if planned != nil {
			wanted = planned.String()
		}
		path := templatePath.Child("spec", "volumes").Key(v.Name).Child("emptyDir", "sizeLimit")
		a.addWarning(path, "keeping %s, which was set after the injection; Rollcall would set %s", existing, wanted)
		return
	}
	if !isSame {
		setSizeLimit(v, planned)
	}
	if planned != nil {
		a.applied = append(a.applied, t)
	}
}
