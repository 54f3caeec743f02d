package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
)

func (l *FrameworksLimit) validate(r *reader, path string) {
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

func (l *FrameworksLimit) check(_ string, f facts, v *violations) {
	path := labelsPath.Key(gang.LabelFramework).String()
	switch {
	case len(l.Allow) > 0 && !slices.Contains(l.Allow, f.Gang.Framework.Name):
		v.add(path, f.Gang.Framework.Name, "is not allowed; allowed are %s", joinNames(l.Allow))
	case slices.Contains(l.Deny, f.Gang.Framework.Name):
		v.add(path, f.Gang.Framework.Name, "is not allowed; use any framework except %s", joinNames(l.Deny))
	}
}

func (l *LabelsLimit) validate(r *reader, path string) {
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

func (l *LabelsLimit) check(_ string, f facts, v *violations) {
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		value, ok := f.Workload.Meta().Labels[label]
		switch pattern := l.patterns[label]; {
		case !ok:
			v.add(labelsPath.Key(label).String(), "", "is required; the value must match %s", l.Require[label])
		case pattern != nil && !pattern.MatchString(value):
			v.add(labelsPath.Key(label).String(), value, "must match %s", l.Require[label])
		}
	}
	for _, label := range l.Forbid {
		if value, ok := f.Workload.Meta().Labels[label]; ok {
			v.add(labelsPath.Key(label).String(), value, "is forbidden; remove the label")
		}
	}
}

// check compares a name with the limit: the priority class or the queue.
func (l *NameLimit) check(key string, f facts, v *violations) {
	path, purpose, names := labelsPath.Key(gang.LabelQueueName).String(), "queue", f.queues()
	if key == "priorityClass" {
		path, purpose, names = podSpecPath.Child("priorityClassName").String(), "priority class", nil
		if value := f.priorityClass(); value != "" {
			names = []fieldFact{{path, value}}
		}
	}
	switch {
	case len(names) == 0 && l.Required && len(l.Allow) > 0:
		v.add(path, "", "is required: the %s; allowed are %s", purpose, joinNames(l.Allow))
	case len(names) == 0 && l.Required:
		v.add(path, "", "is required: the %s", purpose)
	}
	for _, name := range names {
		if len(l.Allow) > 0 && !slices.Contains(l.Allow, name.value) {
			v.add(name.path, name.value, "is not allowed as the %s; allowed are %s", purpose, joinNames(l.Allow))
		}
	}
}

// nvidiaVisibleDevices is the variable from which the NVIDIA container runtime reads the devices of a
// container (NVIDIA Container Toolkit documentation, environment variables). The device plugin sets
// it in containers that requested accelerators. A value in the pod takes precedence.
const nvidiaVisibleDevices = "NVIDIA_VISIBLE_DEVICES"

// check adds the variables that expose accelerators. A resource claim does not permit them, because its driver does not
// need the variable, and the claim can be for another device.
func (l *HiddenGPUsLimit) check(_ string, f facts, v *violations) {
	const consequence = "accelerators that the container does not request; remove it, and request them in resources.limits"
	visitContainers(f.Workload.Template().Spec, func(path *field.Path, c corev1.Container) {
		for i, e := range c.Env {
			switch path := path.Child("env").Index(i); {
			case e.Name != nvidiaVisibleDevices:
			case e.ValueFrom != nil:
				v.add(path.Child("valueFrom").String(), "", "%s can expose %s", e.Name, consequence)
			case !slices.Contains([]string{"", "none", "void"}, e.Value):
				v.add(path.Child("value").String(), e.Value, "%s exposes %s", e.Name, consequence)
			}
		}
	})
}

// checkLabelName reports a name that no label can have.
func (r *reader) checkLabelName(path, name string) {
	for _, message := range validation.IsQualifiedName(name) {
		r.add(path, "is not the name of a label: %s", message)
	}
}
