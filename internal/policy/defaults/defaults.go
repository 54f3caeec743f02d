// Package defaults sets the fields of workloads that users do not set.
//
// A policy provides each [Default]. [Apply] sets them in a new workload and records their sources in the annotation
// [gang.AnnotationInjected]. [Preserve] keeps them in an update of a StatefulSet, so that a changed policy does not
// change the pods of a running gang.
package defaults

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// Kind is a kind of field that can have a default.
type Kind string

// The kinds of fields. All kinds after PriorityClass need a name in addition.
const (
	Runtime       Kind = "runtime"  // in seconds
	TTL           Kind = "ttl"      // in seconds
	Restarts      Kind = "restarts" // the annotation max-restarts
	Queue         Kind = "queue"
	PriorityClass Kind = "priorityClass"
	Label         Kind = "label"
	Annotation    Kind = "annotation"
	PodAnnotation Kind = "podAnnotation"
	NodeSelector  Kind = "nodeSelector"
	Toleration    Kind = "toleration" // the value is JSON; a toleration has no name
	Env           Kind = "env"        // of each training container
	Resource      Kind = "resource"   // of each training container
)

// Default is a value for a field that the user does not set.
type Default struct {
	// Kind is the kind of the field.
	Kind Kind
	// Name is the key, the variable or the resource; empty for kinds without names.
	Name string
	// Value is the value as text.
	Value string
	// Source is who defines the default, such as policy:research.
	Source string
	// OnlyWarn is true if a warning names the value instead of setting it.
	OnlyWarn bool
}

// Apply sets the fields of w that the user does not set, and records the source of each value in
// the annotation [gang.AnnotationInjected]. The first default of a field has precedence. A second call
// with the same defaults changes nothing. The warnings name defaults that might replace a value of the
// user. A workload with too many containers stays as it is, because parsing denies it.
func Apply(w gang.Workload, defaults []Default, frameworks gang.Frameworks) (gang.Warnings, error) {
	if hasTooManyContainers(w) {
		return nil, nil
	}
	record, err := injection.ReadRecord(w)
	if err != nil {
		return nil, nil //nolint:nilerr // the injection reports an invalid record
	}
	if record == nil {
		record = &injection.Record{}
	}
	var warnings gang.Warnings
	recorded := len(record.Defaults)
	forgetUnset(record, w)
	hasChanged := len(record.Defaults) != recorded
	containers := trainingContainerNames(w, record, frameworks)
	planned := map[target]bool{}
	var set []func()
	for _, d := range defaults {
		for _, t := range d.targets(containers) {
			p := t.find(w)
			switch {
			case p == nil || planned[t] || p.isSet:
			case d.OnlyWarn:
				warnings = append(warnings, gang.NewWarning(p.path, fmt.Sprintf(
					"is not set; in the mode enforce, the policy would set %q (%s)", d.Value, d.Source)))
			case p.envFrom != nil:
				warnings = append(warnings, gang.NewWarning(p.envFrom, fmt.Sprintf(
					"may contain %s, so the default %q of the policy is not set; set the variable in env", t.name, d.Value)))
			default:
				planned[t] = true
				set = append(set, func() { p.set(d.Value) })
				injection.SetKey(&record.Defaults, t.key(), d.Source)
			}
		}
	}
	if len(set) == 0 && !hasChanged {
		return warnings, nil
	}
	for _, setField := range set {
		setField()
	}
	return warnings, record.WriteTo(w)
}

// forgetUnset removes the recorded defaults of the fields that w does not set. A manifest that was copied from
// a live object contains its record, but not necessarily its values.
func forgetUnset(record *injection.Record, w gang.Workload) {
	maps.DeleteFunc(record.Defaults, func(key, _ string) bool {
		p := parseTarget(key).find(w)
		return p == nil || !p.isSet
	})
}

// hasTooManyContainers reports whether [gang.Parse] denies a workload because of its number of containers or
// the length of their list. The time to find the targets of defaults grows with the product of both.
func hasTooManyContainers(w gang.Workload) bool {
	spec := &w.Template().Spec
	return len(spec.Containers)+len(spec.InitContainers) > gang.MaxContainers ||
		len(w.Meta().Annotations[gang.AnnotationContainers]) > gang.MaxAnnotationLength
}

// Value is the current value of a field.
type Value struct {
	// Path is the path of the field.
	Path string
	// Value is the value as text; empty if the field is absent, and <valueFrom> for a variable with a source.
	Value string
	// Source is who defines the default of the field, such as policy:research.
	Source string
}

// Read returns the current values of the field of a default, one for each training container if
// the field belongs to a container. The value of an absent field is empty.
func Read(w gang.Workload, d Default, frameworks gang.Frameworks) []Value {
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		record = &injection.Record{}
	}
	var values []Value
	for _, t := range d.targets(trainingContainerNames(w, record, frameworks)) {
		if p := t.find(w); p != nil {
			values = append(values, Value{Path: p.path.String(), Value: p.value, Source: d.Source})
		}
	}
	return values
}

// ListSet returns the current values of the fields that a policy set, in the order of their keys in the record. It
// omits fields that are unset again.
func ListSet(w gang.Workload, record *injection.Record) []Value {
	var values []Value
	for _, key := range slices.Sorted(maps.Keys(record.Defaults)) {
		if p := parseTarget(key).find(w); p != nil && p.isSet {
			values = append(values, Value{Path: p.path.String(), Value: p.value, Source: record.Defaults[key]})
		}
	}
	return values
}

// Preserve sets the recorded defaults of a StatefulSet in an update that does not contain them. The order of a list
// is that of old.
func Preserve(old, updated *appsv1.StatefulSet) {
	before, after := gang.Workload{StatefulSet: old}, gang.Workload{StatefulSet: updated}
	record, err := injection.ReadRecord(before)
	if err != nil || record == nil || hasTooManyContainers(before) || hasTooManyContainers(after) {
		return
	}
	missing := map[*place]*place{} // the places in updated by those in old
	for key := range record.Defaults {
		t := parseTarget(key)
		value, p := t.find(before), t.find(after)
		if value != nil && value.index >= 0 && p != nil && !p.isSet {
			missing[value] = p
		}
	}
	byIndex := func(x, y *place) int { return x.index - y.index }
	for _, value := range slices.SortedFunc(maps.Keys(missing), byIndex) {
		missing[value].set(value.value)
	}
}

// trainingContainerNames returns the names of the training containers: those of the annotation without
// repetitions, else those of an earlier injection, else the container that the parser finds.
func trainingContainerNames(w gang.Workload, record *injection.Record, frameworks gang.Frameworks) []string {
	if list, ok := w.Meta().Annotations[gang.AnnotationContainers]; ok {
		var names []string
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names
	}
	if names := record.TrainingContainers(w.Template()); len(names) > 0 {
		return names
	}
	return []string{frameworks.FindTrainingContainer(w.Template())}
}
