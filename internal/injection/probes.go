package injection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Names of the values of [KindProbe], which are the fields of the container.
const (
	probeLiveness  = "livenessProbe"
	probeReadiness = "readinessProbe"
)

// findProbe returns the field of a probe.
func (c *container) findProbe(name string) **corev1.Probe {
	if name == probeLiveness {
		return &c.LivenessProbe
	}
	return &c.ReadinessProbe
}

func (c *container) readProbe(name string) any {
	if probe := *c.findProbe(name); probe != nil {
		return probe
	}
	return nil
}

func (c *container) removeProbe(name string) { *c.findProbe(name) = nil }

// applyProbe sets a probe of the plan. A probe of the user stays, with a warning.
func (a *applier) applyProbe(c *container, name string, planned *corev1.Probe) {
	if planned == nil {
		return
	}
	existing := c.findProbe(name)
	isEqual := equality.Semantic.DeepEqual(*existing, planned)
	switch o := decide(relate(*existing != nil, a.owns(KindProbe, c.Name, name), isEqual), plan.Warn); o {
	case write:
		*existing = planned.DeepCopy()
		a.markApplied(KindProbe, c.Name, name)
	default:
		a.remark(o, c.path.Child(name), "is kept, so Rollcall does not find stalled ranks; remove the probe, or remove %s",
			gang.AnnotationProgressFile)
	}
}
