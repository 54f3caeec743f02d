package injection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

func (p *podTemplate) readLabel(k key) any {
	if value, ok := p.template.Labels[k.name]; ok {
		return value
	}
	return nil
}

func (p *podTemplate) removeLabel(k key) { delete(p.template.Labels, k.name) }

func (p *podTemplate) readAnnotation(k key) any {
	if value, ok := p.template.Annotations[k.name]; ok {
		return value
	}
	return nil
}

func (p *podTemplate) removeAnnotation(k key) { delete(p.template.Annotations, k.name) }

// applyPodAnnotations sets the planned annotations of the pods. Other values of the user stay, with a remark.
func (a *applier) applyPodAnnotations() {
	for _, planned := range a.plan.PodAnnotations {
		existing, exists := a.pod.template.Annotations[planned.Name]
		relation := relate(exists, a.owns(KindAnnotation, "", planned.Name), existing == planned.Value)
		switch o := decide(relation, planned.Policy); o {
		case write:
			SetKey(&a.pod.template.Annotations, planned.Name, planned.Value)
			a.markApplied(KindAnnotation, "", planned.Name)
		default:
			a.remark(o, templatePath.Child("metadata", "annotations").Key(planned.Name),
				"keeping your value %q; Rollcall would set %q", existing, planned.Value)
		}
	}
}

func (a *applier) applyPodLabels() {
	for _, l := range a.plan.PodLabels {
		path := templatePath.Child("metadata", "labels").Key(l.Name)
		existing, exists := a.pod.template.Labels[l.Name]
		switch o := decide(relate(exists, a.owns(KindLabel, "", l.Name), existing == l.Value), l.Policy); o {
		case write:
			if disabled := a.findDisabledKey(l); !exists && disabled != nil {
				a.addWarning(path, "Rollcall sets %q, which disables %s, although the pods have %s; "+
					"to keep it, set the label yourself", l.Value, l.Disables, disabled)
			}
			SetKey(&a.pod.template.Labels, l.Name, l.Value)
			a.markApplied(KindLabel, "", l.Name)
		case deny:
			a.deny(field.Invalid(path, existing, fmt.Sprintf(
				"must be %q, because Rollcall finds the pods of the gang by the label; remove the label", l.Value)),
				gang.NewRemoveFix(path))
		default:
			a.remark(o, path, "keeping your value %q; Rollcall would set %q", existing, l.Value)
		}
	}
}

// findDisabledKey returns the path of the first label or annotation of the pod template that asks for what
// a planned label disables; nil without one, and if an annotation with the name and the value of the label
// disables it, too.
func (a *applier) findDisabledKey(l plan.Label) *field.Path {
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
