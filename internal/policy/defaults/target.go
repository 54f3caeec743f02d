package defaults

import (
	"encoding/json"
	"math"
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

// target identifies a field of a workload that a default can fill.
type target struct {
	kind      Kind
	container string // for fields of containers
	name      string
}

// place is the field of a target in one workload.
type place struct {
	path *field.Path
	// value is the value as text; empty if the field is absent.
	value string
	// isSet is true if the user sets the field, or another field with the same effect.
	isSet bool
	// index is the index of the value in its list, 0 for a value outside of a list, and -1 without a value that a
	// default can have.
	index int
	// envFrom is the path of a source of variables that may define a variable; nil without one. A variable in env would
	// replace the value of the source.
	envFrom *field.Path
	// set sets the field.
	set func(value string)
}

// newPlace returns a place outside of a list.
func newPlace(path *field.Path, value string, isSet bool, set func(string)) *place {
	p := &place{path: path, value: value, isSet: isSet, set: set}
	if !isSet {
		p.index = -1
	}
	return p
}

// newSeconds returns the place of a number of seconds.
func newSeconds[T int32 | int64](path *field.Path, seconds **T) *place {
	value := ""
	if *seconds != nil {
		value = strconv.FormatInt(int64(**seconds), 10)
	}
	return newPlace(path, value, value != "", func(text string) {
		n, _ := strconv.ParseInt(text, 10, 64) // the policy wrote the text
		*seconds = ptr.To(T(min(n, math.MaxInt32)))
	})
}

// newEntry returns the place of an entry of a map.
func newEntry(path *field.Path, entries *map[string]string, key string) *place {
	value, isSet := (*entries)[key]
	return newPlace(path.Key(key), value, isSet, func(text string) { injection.SetKey(entries, key, text) })
}

// key returns the key of the target in a record.
func (t target) key() string {
	if t.isOfContainer() {
		return string(t.kind) + "/" + t.container + "/" + t.name
	}
	return string(t.kind) + "/" + t.name
}

// parseTarget returns the target of a key in a record.
func parseTarget(key string) target {
	kind, name, _ := strings.Cut(key, "/")
	t := target{kind: Kind(kind), name: name}
	if t.isOfContainer() {
		t.container, t.name, _ = strings.Cut(name, "/")
	}
	return t
}

// targets returns the fields of a default in a workload with the given training containers. The workload may not have
// all of them.
func (d Default) targets(containers []string) []target {
	t := target{kind: d.Kind, name: d.Name}
	if d.Kind == Toleration {
		t.name = newTolerationName(parseToleration(d.Value))
	}
	if !t.isOfContainer() {
		return []target{t}
	}
	var targets []target
	for _, name := range containers {
		targets = append(targets, target{kind: d.Kind, container: name, name: d.Name})
	}
	return targets
}

func (t target) isOfContainer() bool { return t.kind == Env || t.kind == Resource }

// find returns the field in a workload; nil if the workload does not have the object that contains the field. Only a
// Job has a runtime and a TTL. Kueue does not manage a StatefulSet whose label is set after the webhook of Kueue.
func (t target) find(w gang.Workload) *place {
	spec, pod := field.NewPath("spec"), &w.Template().Spec
	podSpec := spec.Child("template", "spec")
	switch {
	case w.Job == nil && slices.Contains([]Kind{Runtime, TTL, Queue}, t.kind):
		return nil
	case t.isOfContainer():
		return t.findInContainer(podSpec.Child("containers"), pod.Containers)
	}
	switch t.kind {
	case Runtime:
		return newSeconds(spec.Child("activeDeadlineSeconds"), &w.Job.Spec.ActiveDeadlineSeconds)
	case TTL:
		return newSeconds(spec.Child("ttlSecondsAfterFinished"), &w.Job.Spec.TTLSecondsAfterFinished)
	case Queue:
		return findQueue(w)
	case PriorityClass:
		value := pod.PriorityClassName
		return newPlace(podSpec.Child("priorityClassName"), value, value != "",
			func(text string) { pod.PriorityClassName = text })
	case Toleration:
		return t.findToleration(podSpec.Child("tolerations"), &pod.Tolerations)
	}
	return t.findEntry(w)
}

// findEntry returns an entry of a map; nil for a kind that only a record of another release has.
func (t target) findEntry(w gang.Workload) *place {
	template := field.NewPath("spec", "template")
	switch t.kind {
	case Restarts:
		p := newEntry(fieldpath.Annotations, &w.Meta().Annotations, gang.AnnotationMaxRestarts)
		p.isSet = p.isSet || w.Job != nil && !gang.IsDefaultBackoffLimit(w.Job.Spec.BackoffLimit)
		return p
	case Label:
		return newEntry(fieldpath.Labels, &w.Meta().Labels, t.name)
	case Annotation:
		if t.name == gang.AnnotationTopology && w.IsManagedExternally() { // another controller chooses the nodes
			return nil
		}
		return newEntry(fieldpath.Annotations, &w.Meta().Annotations, t.name)
	case PodAnnotation:
		return newEntry(template.Child("metadata", "annotations"), &w.Template().Annotations, t.name)
	case NodeSelector:
		return newEntry(template.Child("spec", "nodeSelector"), &w.Template().Spec.NodeSelector, t.name)
	}
	return nil
}

// findQueue returns the label of a Job with its queue, or the annotation by which admission replaces the label if the
// workloads of the gang wait as one.
func findQueue(w gang.Workload) *place {
	p := newEntry(fieldpath.Labels, &w.Meta().Labels, gang.LabelQueueName)
	if p.value == "" && w.Meta().Annotations[gang.AnnotationQueue] != "" && !w.IsManagedExternally() {
		p = newEntry(fieldpath.Annotations, &w.Meta().Annotations, gang.AnnotationQueue)
	}
	return newPlace(p.path, p.value, p.value != "", func(text string) {
		p.set(text)
		w.Job.Spec.Suspend = ptr.To(true) // the webhook of Kueue suspends Jobs with the label, and may have run before
	})
}

func (t target) findToleration(path *field.Path, list *[]corev1.Toleration) *place {
	key := t.name[:max(strings.LastIndex(t.name, ":"), 0)] // an effect has no colon
	p := &place{
		path: path,
		isSet: slices.ContainsFunc(*list, func(o corev1.Toleration) bool {
			return o.Key == key || o.Key == "" && o.Operator == corev1.TolerationOpExists
		}),
		index: slices.IndexFunc(*list, func(o corev1.Toleration) bool { return newTolerationName(o) == t.name }),
		set:   func(text string) { *list = append(*list, parseToleration(text)) },
	}
	if p.index >= 0 {
		text, _ := json.Marshal((*list)[p.index]) // it has only texts and numbers
		p.value = string(text)
	}
	return p
}

// findInContainer returns a variable or a resource of a container; nil if the container does not exist.
func (t target) findInContainer(path *field.Path, containers []corev1.Container) *place {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == t.container })
	if i < 0 {
		return nil
	}
	if path = path.Index(i); t.kind == Env {
		return t.findEnv(path, &containers[i])
	}
	name, resources, value := corev1.ResourceName(t.name), &containers[i].Resources, ""
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if quantity, ok := list[name]; ok {
			value = quantity.String()
		}
	}
	return newPlace(path.Child("resources", "limits").Key(t.name), value, value != "", func(text string) {
		quantity, _ := resource.ParseQuantity(text) // the policy has validated the text
		injection.SetKey(&resources.Limits, name, quantity)
		injection.SetKey(&resources.Requests, name, quantity)
	})
}

// findEnv returns a variable of a container. The last entry takes effect.
func (t target) findEnv(path *field.Path, c *corev1.Container) *place {
	p := newPlace(path.Child("env").Key(t.name), "", false,
		func(text string) { c.Env = append(c.Env, corev1.EnvVar{Name: t.name, Value: text}) })
	for i, e := range c.Env {
		switch {
		case e.Name != t.name:
		case e.ValueFrom != nil:
			p.isSet, p.index, p.value = true, -1, "<valueFrom>"
		default:
			p.isSet, p.index, p.value = true, i, e.Value
		}
	}
	i := slices.IndexFunc(c.EnvFrom, func(s corev1.EnvFromSource) bool { return strings.HasPrefix(t.name, s.Prefix) })
	if i >= 0 {
		p.envFrom = path.Child("envFrom").Index(i)
	}
	return p
}

func parseToleration(text string) corev1.Toleration {
	var toleration corev1.Toleration
	_ = json.Unmarshal([]byte(text), &toleration) // the policy wrote the text, or the value is empty
	return toleration
}

// newTolerationName returns the name of the target for a toleration. Two tolerations of one taint with
// different effects are different targets.
func newTolerationName(t corev1.Toleration) string { return t.Key + ":" + string(t.Effect) }
