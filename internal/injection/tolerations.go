package injection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/plan"
)

// tolerationName returns the name of a toleration in a [Record]: its key and its effect.
func tolerationName(t corev1.Toleration) string { return t.Key + ":" + string(t.Effect) }

// findToleration returns the index of a toleration; -1 without it.
func (p *podTemplate) findToleration(name string) int {
	key, effect, _ := strings.Cut(name, ":")
	return slices.IndexFunc(p.template.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == key && string(t.Effect) == effect
	})
}

func (p *podTemplate) readToleration(k key) any {
	if i := p.findToleration(k.name); i >= 0 {
		return p.template.Spec.Tolerations[i]
	}
	return nil
}

func (p *podTemplate) removeToleration(k key) {
	if i := p.findToleration(k.name); i >= 0 {
		spec := &p.template.Spec
		spec.Tolerations = nilIfEmpty(slices.Delete(spec.Tolerations, i, i+1))
	}
}

// applyTolerations adds the tolerations of the plan unless the user tolerates the taint. A StatefulSet that an earlier
// build injected without tolerations stays without them, because a resize of an elastic gang must not replace all of
// its pods.
func (a *applier) applyTolerations() {
	isInjected := a.old != nil && len(a.old.Values) > 0 // a policy may have set defaults before the injection
	if a.workload.StatefulSet != nil && isInjected && len(a.old.ByName(kindToleration)) == 0 {
		return
	}
	for _, t := range a.plan.Tolerations {
		name := tolerationName(t)
		exists := slices.ContainsFunc(a.pod.template.Spec.Tolerations, func(o corev1.Toleration) bool {
			hasKey := o.Key == t.Key || o.Key == "" && o.Operator == corev1.TolerationOpExists
			return hasKey && (o.Effect == t.Effect || o.Effect == "")
		})
		isOwned := a.owns(kindToleration, "", name)
		if decide(relate(exists, isOwned, false), plan.KeepUser) != write {
			continue
		}
		if i := a.pod.findToleration(name); isOwned && i >= 0 {
			a.pod.template.Spec.Tolerations[i] = t
		} else {
			a.pod.template.Spec.Tolerations = append(a.pod.template.Spec.Tolerations, t)
		}
		a.markApplied(kindToleration, "", name)
	}
}
