package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
)

var podLabelTargets = targetKind{
	planned: (*applier).plannedPodLabelTargets,
	apply:   (*applier).applyPodLabels,
	recorded: func(r *Record, add func(target, string)) {
		for name, digest := range r.Labels {
			add(podLabelTarget{name}, digest)
		}
	},
}

// podLabelTarget is a label of the pod template.
type podLabelTarget struct{ name string }

func (t podLabelTarget) currentValue(p *podTemplate) any {
	if value, ok := p.template.Labels[t.name]; ok {
		return value
	}
	return nil
}

func (t podLabelTarget) removeFrom(p *podTemplate) { delete(p.template.Labels, t.name) }

func (t podLabelTarget) recordDigest(r *Record, digest string) { r.Labels.set(t.name, digest) }

func (t podLabelTarget) path() *field.Path {
	return templatePath.Child("metadata", "labels").Key(t.name)
}

func (a *applier) plannedPodLabelTargets() []target {
	var targets []target
	for _, l := range a.plan.PodLabels {
		targets = append(targets, podLabelTarget{l.Name})
	}
	return targets
}

func (a *applier) applyPodLabels() {
	for _, l := range a.plan.PodLabels {
		t := podLabelTarget{l.Name}
		existing, exists := a.pod.template.Labels[l.Name]
		switch {
		case !exists || a.owned[t]:
			if key := a.findDisabledKey(l); !exists && key != nil {
				a.addWarning(t.path(), "Rollcall sets %q, which disables %s, although the pods have %s; "+
					"to keep it, set the label yourself", l.Value, l.Disables, key)
			}
			if a.pod.template.Labels == nil {
				a.pod.template.Labels = map[string]string{}
			}
			a.pod.template.Labels[l.Name] = l.Value
			a.applied = append(a.applied, t)
		case existing == l.Value || l.Policy == Fallback:
		case l.Policy == Default:
			a.addWarning(t.path(), "keeping your value %q; Rollcall would set %q", existing, l.Value)
		default:
			a.deny(field.Invalid(t.path(), existing, fmt.Sprintf(
				"must be %q, because Rollcall finds the pods of the gang by the label; remove the label", l.Value)),
				gang.NewRemoveFix(t.path()))
		}
	}
}

// findDisabledKey returns the path of the first label or annotation of the pod template that asks for what
// a planned label disables; nil without one, and if an annotation with the name and the value of the label
// disables it, too.
func (a *applier) findDisabledKey(l Label) *field.Path {
	template := a.pod.template
	if len(l.DisabledPrefixes) == 0 || template.Annotations[l.Name] == l.Value {
		return nil
	}
	for _, m := range []struct {
		name string
		keys map[string]string
	}{
		{name: "labels", keys: template.Labels},
		{name: "annotations", keys: template.Annotations},
	} {
		for _, key := range slices.Sorted(maps.Keys(m.keys)) {
			hasPrefix := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if slices.ContainsFunc(l.DisabledPrefixes, hasPrefix) {
				return templatePath.Child("metadata", m.name).Key(key)
			}
		}
	}
	return nil
}
