package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
)

func (l *FrameworksLimit) validate(r *reader, path string) {
	if len(l.Allow) == 0 && len(l.Deny) == 0 {
		r.add(path, "has no effect; list the allowed frameworks in allow")
	}
	for i, name := range l.Allow {
		r.checkFramework(fmt.Sprintf("%s.allow[%d]", path, i), name)
		if slices.Contains(l.Deny, name) {
			r.add(fmt.Sprintf("%s.allow[%d]", path, i), "%s is also in deny", name)
		}
	}
	for i, name := range l.Deny {
		r.checkFramework(fmt.Sprintf("%s.deny[%d]", path, i), name)
	}
}

func (l *FrameworksLimit) check(f Facts) []violation {
	message := ""
	switch {
	case len(l.Allow) > 0 && !slices.Contains(l.Allow, f.Framework):
		message = "is not allowed; allowed are " + joinNames(l.Allow)
	case slices.Contains(l.Deny, f.Framework):
		message = "is not allowed; use any framework except " + joinNames(l.Deny)
	default:
		return nil
	}
	return []violation{{
		field: labelsPath.Key(gang.LabelFramework).String(), value: f.Framework, message: message,
	}}
}

func (l *LabelsLimit) validate(r *reader, path string) {
	if len(l.Require) == 0 && len(l.Forbid) == 0 {
		r.add(path, "has no effect; set require or forbid")
	}
	l.patterns = map[string]*regexp.Regexp{}
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		labelPath := fmt.Sprintf("%s.require[%s]", path, label)
		r.checkLabelName(labelPath, label)
		l.patterns[label] = r.compilePattern(labelPath, l.Require[label])
		if slices.Contains(l.Forbid, label) {
			r.add(labelPath, "is required and forbidden")
		}
	}
	for i, label := range l.Forbid {
		r.checkLabelName(fmt.Sprintf("%s.forbid[%d]", path, i), label)
	}
}

func (l *LabelsLimit) check(f Facts) []violation {
	var violations []violation
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		value, ok := f.Labels[label]
		switch {
		case ok && l.patterns[label].MatchString(value):
		case !ok:
			violations = append(violations, violation{
				field:   labelsPath.Key(label).String(),
				message: fmt.Sprintf("is required; the value must match %s", l.Require[label]),
			})
		default:
			violations = append(violations, violation{
				field: labelsPath.Key(label).String(), value: value,
				message: fmt.Sprintf("must match %s", l.Require[label]),
			})
		}
	}
	for _, label := range l.Forbid {
		if value, ok := f.Labels[label]; ok {
			violations = append(violations, violation{
				field: labelsPath.Key(label).String(), value: value, message: "is forbidden; remove the label",
			})
		}
	}
	return violations
}

func (l *NameLimit) validate(r *reader, path string) {
	if !l.Required && len(l.Allow) == 0 {
		r.add(path, "has no effect; set required or allow")
	}
}

// check compares a name with the limit.
func (l *NameLimit) check(path, value, purpose string) []violation {
	switch {
	case value == "" && l.Required && len(l.Allow) > 0:
		return []violation{{
			field: path, message: fmt.Sprintf("is required: the %s; allowed are %s", purpose, joinNames(l.Allow)),
		}}
	case value == "" && l.Required:
		return []violation{{field: path, message: "is required: the " + purpose}}
	case value != "" && len(l.Allow) > 0 && !slices.Contains(l.Allow, value):
		return []violation{{
			field: path, value: value,
			message: fmt.Sprintf("is not allowed as the %s; allowed are %s", purpose, joinNames(l.Allow)),
		}}
	}
	return nil
}

// priorityClassLimit is the limit of the priority class.
type priorityClassLimit struct{ *NameLimit }

func (l priorityClassLimit) check(f Facts) []violation {
	return l.NameLimit.check(podSpecPath.Child("priorityClassName").String(), f.PriorityClass, "priority class")
}

// queueLimit is the limit of the queue.
type queueLimit struct{ *NameLimit }

func (l queueLimit) check(f Facts) []violation {
	return l.NameLimit.check(labelsPath.Key(gang.LabelQueueName).String(), f.Queue, "queue")
}

func (l *HiddenGPUsLimit) validate(*reader, string) {}

func (l *HiddenGPUsLimit) check(f Facts) []violation {
	var violations []violation
	for _, v := range f.HiddenGPUs {
		verb := "exposes"
		if v.Value == "" {
			verb = "can expose" // the value is in a source, such as a ConfigMap
		}
		violations = append(violations, violation{
			field: v.Path, value: v.Value,
			message: fmt.Sprintf("%s %s accelerators that the container does not request; "+
				"remove it, and request them in resources.limits", v.Name, verb),
		})
	}
	return violations
}

// checkLabelName reports a name that no label can have.
func (r *reader) checkLabelName(path, name string) {
	for _, message := range validation.IsQualifiedName(name) {
		r.add(path, "is not the name of a label: %s", message)
	}
}
