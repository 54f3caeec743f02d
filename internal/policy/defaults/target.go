package defaults

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/injection"
)

// target is one field of a workload that a default can fill.
type target struct {
	kind      Kind
	container string // for fields of containers
	name      string
}

// key returns the key of the target in a record.
func (t target) key() string {
	if t.isOfContainer() {
		return string(t.kind) + "/" + t.container + "/" + t.name
	}
	return string(t.kind) + "/" + t.name
}

// parseTarget returns the target of a key in a record.
func parseTarget(key string) (target, bool) {
	kind, name, ok := strings.Cut(key, "/")
	t := target{kind: Kind(kind), name: name}
	if ok && t.isOfContainer() {
		t.container, t.name, ok = strings.Cut(name, "/")
	}
	return t, ok
}

// targets returns the fields of a default in a workload with the given training containers.
func (d Default) targets(w gang.Workload, containers []string) []target {
	t := target{kind: d.Kind, name: d.Name}
	if d.Kind == Toleration {
		t.name = newTolerationName(parseToleration(d.Value))
	}
	candidates := []target{t}
	if t.isOfContainer() {
		candidates = nil
		for _, name := range containers {
			candidates = append(candidates, target{kind: d.Kind, container: name, name: d.Name})
		}
	}
	return slices.DeleteFunc(candidates, func(t target) bool { return !t.exists(w) })
}

func (t target) isOfContainer() bool { return t.kind == Env || t.kind == Resource }

// exists reports whether the workload has the object that contains the field. Only a Job has a runtime and a TTL.
// Kueue does not manage a StatefulSet whose label is set after the webhook of Kueue.
func (t target) exists(w gang.Workload) bool {
	if t.isOfContainer() {
		c, _ := t.findContainer(w)
		return c != nil
	}
	return w.Job != nil || !slices.Contains([]Kind{Runtime, TTL, Queue}, t.kind)
}

// findContainer returns the container of the target; nil if the target has none.
func (t target) findContainer(w gang.Workload) (*corev1.Container, int) {
	containers := w.Template().Spec.Containers
	for i := range containers {
		if containers[i].Name == t.container {
			return &containers[i], i
		}
	}
	return nil, -1
}

// findEntry returns the map, its path and the key of a target that is an entry of a map; a nil map for other kinds.
func (t target) findEntry(w gang.Workload) (entries *map[string]string, path *field.Path, key string) {
	labels, annotations := fieldpath.Labels, fieldpath.Annotations
	template, templatePath := w.Template(), field.NewPath("spec", "template")
	switch t.kind {
	case Restarts:
		return &w.Meta().Annotations, annotations, gang.AnnotationMaxRestarts
	case Queue: // admission replaces the label by the annotation if the workloads of the gang wait as one
		ofGang := w.Meta().Annotations[gang.AnnotationQueue]
		if ofGang != "" && w.Meta().Labels[gang.LabelQueueName] == "" && !w.IsManagedExternally() {
			return &w.Meta().Annotations, annotations, gang.AnnotationQueue
		}
		return &w.Meta().Labels, labels, gang.LabelQueueName
	case Label:
		return &w.Meta().Labels, labels, t.name
	case Annotation:
		return &w.Meta().Annotations, annotations, t.name
	case PodAnnotation:
		return &template.Annotations, templatePath.Child("metadata", "annotations"), t.name
	case NodeSelector:
		return &template.Spec.NodeSelector, templatePath.Child("spec", "nodeSelector"), t.name
	}
	return nil, nil, ""
}

// path returns the path of the field.
func (t target) path(w gang.Workload) *field.Path {
	spec := field.NewPath("spec")
	podSpec := spec.Child("template", "spec")
	switch t.kind {
	case Runtime:
		return spec.Child("activeDeadlineSeconds")
	case TTL:
		return spec.Child("ttlSecondsAfterFinished")
	case PriorityClass:
		return podSpec.Child("priorityClassName")
	case Toleration:
		return podSpec.Child("tolerations")
	case Env, Resource:
		_, i := t.findContainer(w)
		if t.kind == Resource {
			return podSpec.Child("containers").Index(i).Child("resources", "limits").Key(t.name)
		}
		return podSpec.Child("containers").Index(i).Child("env").Key(t.name)
	}
	_, path, key := t.findEntry(w)
	return path.Key(key)
}

// read returns the value of the field; empty if the field is absent.
func (t target) read(w gang.Workload) string {
	if entries, _, key := t.findEntry(w); entries != nil {
		return (*entries)[key]
	}
	switch t.kind {
	case Runtime:
		return formatSeconds(w.Job.Spec.ActiveDeadlineSeconds)
	case TTL:
		return formatSeconds(w.Job.Spec.TTLSecondsAfterFinished)
	case PriorityClass:
		return w.Template().Spec.PriorityClassName
	case Toleration:
		if i := t.position(w); i >= 0 {
			text, _ := json.Marshal(w.Template().Spec.Tolerations[i]) // it has only texts and numbers
			return string(text)
		}
	case Env, Resource:
		return t.readFromContainer(w)
	}
	return ""
}

// readFromContainer is [target.read] for fields of containers.
func (t target) readFromContainer(w gang.Workload) string {
	c, _ := t.findContainer(w)
	if c == nil {
		return ""
	}
	if t.kind == Resource {
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			if quantity, ok := list[corev1.ResourceName(t.name)]; ok {
				return quantity.String()
			}
		}
		return ""
	}
	switch i := indexOfLastEnv(c, t.name); {
	case i < 0:
		return ""
	case c.Env[i].ValueFrom != nil:
		return "<valueFrom>"
	default:
		return c.Env[i].Value
	}
}

// indexOfLastEnv returns the index of the entry of a variable that takes effect; -1 without an entry.
func indexOfLastEnv(c *corev1.Container, name string) int {
	for i := range slices.Backward(c.Env) {
		if c.Env[i].Name == name {
			return i
		}
	}
	return -1
}

// isSet reports whether the user sets the field, or another field with the same effect.
func (t target) isSet(w gang.Workload) bool {
	switch t.kind {
	case Toleration:
		key := t.name[:max(strings.LastIndex(t.name, ":"), 0)] // an effect has no colon
		return slices.ContainsFunc(w.Template().Spec.Tolerations, func(o corev1.Toleration) bool {
			return o.Key == key || o.Key == "" && o.Operator == corev1.TolerationOpExists
		})
	case Env:
		c, _ := t.findContainer(w)
		return indexOfLastEnv(c, t.name) >= 0
	case Restarts:
		if w.Job != nil && !gang.IsDefaultBackoffLimit(w.Job.Spec.BackoffLimit) {
			return true
		}
	}
	if entries, _, key := t.findEntry(w); entries != nil && t.kind != Queue {
		_, ok := (*entries)[key]
		return ok
	}
	return t.read(w) != ""
}

// position returns the index of the value in its list, 0 for a value outside of a list, and -1 without a value.
// A variable with a source has no value.
func (t target) position(w gang.Workload) int {
	switch {
	case t.kind == Toleration:
		return slices.IndexFunc(w.Template().Spec.Tolerations, func(o corev1.Toleration) bool {
			return newTolerationName(o) == t.name
		})
	case !t.isSet(w):
		return -1
	case t.kind == Env:
		c, _ := t.findContainer(w)
		if i := indexOfLastEnv(c, t.name); c.Env[i].ValueFrom == nil {
			return i
		}
		return -1
	}
	return 0
}

// set sets the field.
func (t target) set(w gang.Workload, value string) {
	if entries, _, key := t.findEntry(w); entries != nil {
		injection.SetKey(entries, key, value)
	}
	spec := &w.Template().Spec
	c, _ := t.findContainer(w)
	switch t.kind {
	case Runtime:
		w.Job.Spec.ActiveDeadlineSeconds = ptr.To(parseSeconds(value))
	case TTL:
		w.Job.Spec.TTLSecondsAfterFinished = ptr.To(int32(min(parseSeconds(value), 1<<31-1)))
	case Queue: // the webhook of Kueue suspends Jobs with the label, and may have run before
		w.Job.Spec.Suspend = ptr.To(true)
	case PriorityClass:
		spec.PriorityClassName = value
	case Toleration:
		spec.Tolerations = append(spec.Tolerations, parseToleration(value))
	case Env:
		c.Env = append(c.Env, corev1.EnvVar{Name: t.name, Value: value})
	case Resource:
		quantity, _ := resource.ParseQuantity(value) // the policy has validated the text
		injection.SetKey(&c.Resources.Limits, corev1.ResourceName(t.name), quantity)
		injection.SetKey(&c.Resources.Requests, corev1.ResourceName(t.name), quantity)
	}
}

// findEnvFrom returns the path of a source of variables that may define the variable of the target; nil
// without one. A variable in env would replace the value of the source.
func (t target) findEnvFrom(w gang.Workload) *field.Path {
	if t.kind != Env {
		return nil
	}
	c, i := t.findContainer(w)
	for j, source := range c.EnvFrom {
		if strings.HasPrefix(t.name, source.Prefix) {
			return field.NewPath("spec", "template", "spec", "containers").Index(i).Child("envFrom").Index(j)
		}
	}
	return nil
}

func parseToleration(text string) corev1.Toleration {
	var toleration corev1.Toleration
	_ = json.Unmarshal([]byte(text), &toleration) // the policy wrote the text, or the value is empty
	return toleration
}

// newTolerationName returns the name of the target for a toleration. Two tolerations of one taint with
// different effects are different targets.
func newTolerationName(t corev1.Toleration) string { return t.Key + ":" + string(t.Effect) }

func parseSeconds(text string) int64 {
	seconds, _ := strconv.ParseInt(text, 10, 64) // the policy wrote the text
	return seconds
}

func formatSeconds[T int32 | int64](seconds *T) string {
	if seconds == nil {
		return ""
	}
	return strconv.FormatInt(int64(*seconds), 10)
}
