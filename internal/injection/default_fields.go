package injection

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// read returns the value of the field; empty if the field is absent.
func (t defaultTarget) read(w gang.Workload) string {
	meta, template := w.Meta(), w.Template()
	switch t.kind {
	case DefaultRuntime:
		return formatSeconds(w.Job.Spec.ActiveDeadlineSeconds)
	case DefaultTTL:
		return formatSeconds(w.Job.Spec.TTLSecondsAfterFinished)
	case DefaultRestarts:
		return meta.Annotations[gang.AnnotationMaxRestarts]
	case DefaultQueue:
		return meta.Labels[gang.LabelQueueName]
	case DefaultPriorityClass:
		return template.Spec.PriorityClassName
	case DefaultLabel:
		return meta.Labels[t.name]
	case DefaultAnnotation:
		return meta.Annotations[t.name]
	case DefaultPodAnnotation:
		return template.Annotations[t.name]
	case DefaultNodeSelector:
		return template.Spec.NodeSelector[t.name]
	case DefaultToleration:
		return readToleration(template.Spec.Tolerations, t.position(w))
	}
	return t.readFromContainer(w)
}

func readToleration(tolerations []corev1.Toleration, i int) string {
	if i < 0 {
		return ""
	}
	text, err := json.Marshal(tolerations[i])
	if err != nil {
		return "" // a toleration has only texts and numbers
	}
	return string(text)
}

func (t defaultTarget) readFromContainer(w gang.Workload) string {
	c, _ := t.findContainer(w)
	if c == nil {
		return ""
	}
	switch t.kind {
	case DefaultEnv:
		i := indexOfLastEnv(c, t.name)
		switch {
		case i < 0:
			return ""
		case c.Env[i].ValueFrom != nil:
			return unknownValue
		}
		return c.Env[i].Value
	case DefaultResource:
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			if quantity, ok := list[corev1.ResourceName(t.name)]; ok {
				return quantity.String()
			}
		}
	}
	return ""
}

// unknownValue is what a variable with a source contains.
const unknownValue = "<valueFrom>"

// indexOfLastEnv returns the index of the entry of a variable that takes effect; -1 without an entry.
func indexOfLastEnv(c *corev1.Container, name string) int {
	for i := range slices.Backward(c.Env) {
		if c.Env[i].Name == name {
			return i
		}
	}
	return -1
}

// position returns the index of the value in its list, 0 for a value outside of a list, and -1 without a value.
// A variable with a source has no value.
func (t defaultTarget) position(w gang.Workload) int {
	switch t.kind {
	case DefaultToleration:
		return slices.IndexFunc(w.Template().Spec.Tolerations, func(o corev1.Toleration) bool {
			return newTolerationName(o) == t.name
		})
	case DefaultEnv:
		c, _ := t.findContainer(w)
		if i := indexOfLastEnv(c, t.name); i >= 0 && c.Env[i].ValueFrom == nil {
			return i
		}
		return -1
	}
	if !t.isSet(w) {
		return -1
	}
	return 0
}

// isSet reports whether the user sets the field, or another field with the same effect.
func (t defaultTarget) isSet(w gang.Workload) bool {
	switch t.kind {
	case DefaultRestarts:
		_, isAnnotated := w.Meta().Annotations[gang.AnnotationMaxRestarts]
		return isAnnotated || w.Job != nil && !gang.IsDefaultBackoffLimit(w.Job.Spec.BackoffLimit)
	case DefaultToleration:
		key := keyOfTolerationName(t.name)
		return slices.ContainsFunc(w.Template().Spec.Tolerations, func(o corev1.Toleration) bool {
			return o.Key == key || o.Key == "" && o.Operator == corev1.TolerationOpExists
		})
	case DefaultLabel:
		_, ok := w.Meta().Labels[t.name]
		return ok
	case DefaultAnnotation:
		_, ok := w.Meta().Annotations[t.name]
		return ok
	case DefaultPodAnnotation:
		_, ok := w.Template().Annotations[t.name]
		return ok
	case DefaultNodeSelector:
		_, ok := w.Template().Spec.NodeSelector[t.name]
		return ok
	case DefaultEnv:
		c, _ := t.findContainer(w)
		return indexOfLastEnv(c, t.name) >= 0
	}
	return t.read(w) != ""
}

// keyOfTolerationName returns the key of the taint in the name of a target. An effect has no colon.
func keyOfTolerationName(name string) string {
	return name[:max(strings.LastIndex(name, ":"), 0)]
}

// set sets the field.
func (t defaultTarget) set(w gang.Workload, value string) {
	meta, template := w.Meta(), w.Template()
	switch t.kind {
	case DefaultRuntime:
		w.Job.Spec.ActiveDeadlineSeconds = ptr.To(parseSeconds(value))
	case DefaultTTL:
		w.Job.Spec.TTLSecondsAfterFinished = ptr.To(int32(min(parseSeconds(value), 1<<31-1)))
	case DefaultRestarts:
		setKey(&meta.Annotations, gang.AnnotationMaxRestarts, value)
	case DefaultQueue:
		setKey(&meta.Labels, gang.LabelQueueName, value)
		// The webhook of Kueue suspends Jobs with the label, and may have run before.
		w.Job.Spec.Suspend = ptr.To(true)
	case DefaultPriorityClass:
		template.Spec.PriorityClassName = value
	case DefaultLabel:
		setKey(&meta.Labels, t.name, value)
	case DefaultAnnotation:
		setKey(&meta.Annotations, t.name, value)
	case DefaultPodAnnotation:
		setKey(&template.Annotations, t.name, value)
	case DefaultNodeSelector:
		setKey(&template.Spec.NodeSelector, t.name, value)
	case DefaultToleration:
		template.Spec.Tolerations = append(template.Spec.Tolerations, parseToleration(value))
	case DefaultEnv:
		c, _ := t.findContainer(w)
		c.Env = append(c.Env, corev1.EnvVar{Name: t.name, Value: value})
	case DefaultResource:
		c, _ := t.findContainer(w)
		setKey(&c.Resources.Limits, corev1.ResourceName(t.name), parseQuantity(value))
		setKey(&c.Resources.Requests, corev1.ResourceName(t.name), parseQuantity(value))
	}
}

func parseSeconds(text string) int64 {
	seconds, _ := strconv.ParseInt(text, 10, 64) // the policy wrote the text
	return seconds
}

// setKey sets a key of a map that can be nil.
func setKey[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[key] = value
}

// path returns the path of the field.
func (t defaultTarget) path(w gang.Workload) *field.Path {
	labels, annotations := field.NewPath("metadata", "labels"), field.NewPath("metadata", "annotations")
	spec := field.NewPath("spec")
	template := spec.Child("template")
	switch t.kind {
	case DefaultRuntime:
		return spec.Child("activeDeadlineSeconds")
	case DefaultTTL:
		return spec.Child("ttlSecondsAfterFinished")
	case DefaultRestarts:
		return annotations.Key(gang.AnnotationMaxRestarts)
	case DefaultQueue:
		return labels.Key(gang.LabelQueueName)
	case DefaultPriorityClass:
		return template.Child("spec", "priorityClassName")
	case DefaultLabel:
		return labels.Key(t.name)
	case DefaultAnnotation:
		return annotations.Key(t.name)
	case DefaultPodAnnotation:
		return template.Child("metadata", "annotations").Key(t.name)
	case DefaultNodeSelector:
		return template.Child("spec", "nodeSelector").Key(t.name)
	case DefaultToleration:
		return template.Child("spec", "tolerations")
	}
	_, i := t.findContainer(w)
	if t.kind == DefaultResource {
		return containerPath(i).Child("resources", "limits").Key(t.name)
	}
	return containerPath(i).Child("env").Key(t.name)
}
