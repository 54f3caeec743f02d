package injection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"rollcall.training/plan"
)

// readSizeLimit returns the size limit of an emptyDir volume. It is not part of the volume, because cluster
// policies set and change size limits.
func (p *podTemplate) readSizeLimit(k key) any {
	if v := p.findVolume(k.name); v != nil && sizeLimit(v) != nil {
		return sizeLimit(v)
	}
	return nil
}

func (p *podTemplate) removeSizeLimit(k key) {
	if v := p.findVolume(k.name); v != nil {
		setSizeLimit(v, nil)
	}
}

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
	existing := sizeLimit(v)
	isSame := existing != nil && planned != nil && existing.Cmp(*planned) == 0
	o := decide(relate(existing != nil, a.owns(kindSizeLimit, "", v.Name), isSame), plan.Warn)
	if o == warn {
		wanted := "no limit"
		if planned != nil {
			wanted = planned.String()
		}
		path := templatePath.Child("spec", "volumes").Key(v.Name).Child("emptyDir", "sizeLimit")
		a.remark(o, path, "keeping %s, which was set after the injection; Rollcall would set %s", existing, wanted)
		return
	}
	if !isSame {
		setSizeLimit(v, planned)
	}
	if planned != nil {
		a.markApplied(kindSizeLimit, "", v.Name)
	}
}
