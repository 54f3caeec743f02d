package injection

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// applyPodAnnotations sets the planned annotations of the pods. Other values of the user stay, with a remark.
func (a *applier) applyPodAnnotations() {
	for _, planned := range a.plan.PodAnnotations {
		existing, exists := a.pod.template.Annotations[planned.Name]
		relation := relate(exists, a.owns(kindAnnotation, "", planned.Name), existing == planned.Value)
		switch o := decide(relation, planned.Policy); o {
		case write:
			SetKey(&a.pod.template.Annotations, planned.Name, planned.Value)
			a.markApplied(kindAnnotation, "", planned.Name)
		default:
			a.remark(o, annotationsPath.Key(planned.Name),
				"keeping your value %q; Rollcall would set %q", existing, planned.Value)
		}
	}
}

func (a *applier) applyPodLabels() {
	for _, l := range a.plan.PodLabels {
		existing, exists := a.pod.template.Labels[l.Name]
		switch o := decide(relate(exists, a.owns(kindLabel, "", l.Name), existing == l.Value), l.Policy); o {
		case write:
			if disabled := a.findDisabledKey(l); !exists && disabled != nil {
				a.addWarning(labelsPath.Key(l.Name), "Rollcall sets %q, which disables %s, although the pods have %s; "+
					"to keep it, set the label yourself", l.Value, l.Disables, disabled)
			}
			SetKey(&a.pod.template.Labels, l.Name, l.Value)
			a.markApplied(kindLabel, "", l.Name)
		case deny:
			path := labelsPath.Key(l.Name)
			a.deny(field.Invalid(path, existing, fmt.Sprintf(
				"must be %q, because Rollcall finds the pods of the gang by the label; remove the label", l.Value)),
				gang.NewRemoveFix(path))
		default:
			a.remark(o, labelsPath.Key(l.Name), "keeping your value %q; Rollcall would set %q", existing, l.Value)
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
	find := func(keys map[string]string) string {
		first := ""
		for key := range keys {
			hasPrefix := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if slices.ContainsFunc(l.DisabledPrefixes, hasPrefix) && (first == "" || key < first) {
				first = key
			}
		}
		return first
	}
	if key := find(template.Labels); key != "" {
		return labelsPath.Key(key)
	}
	if key := find(template.Annotations); key != "" {
		return annotationsPath.Key(key)
	}
	return nil
}
