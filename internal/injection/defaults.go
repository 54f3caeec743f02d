package injection

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
)

// DefaultKind is a kind of field that the policy of the cluster can fill.
type DefaultKind string

// The kinds of fields. All kinds after DefaultPriorityClass need a name in addition.
const (
	DefaultRuntime       DefaultKind = "runtime"  // in seconds
	DefaultTTL           DefaultKind = "ttl"      // in seconds
	DefaultRestarts      DefaultKind = "restarts" // the annotation max-restarts
	DefaultQueue         DefaultKind = "queue"
	DefaultPriorityClass DefaultKind = "priorityClass"
	DefaultLabel         DefaultKind = "label"
	DefaultAnnotation    DefaultKind = "annotation"
	DefaultPodAnnotation DefaultKind = "podAnnotation"
	DefaultNodeSelector  DefaultKind = "nodeSelector"
	DefaultToleration    DefaultKind = "toleration" // the value is JSON; a toleration has no name
	DefaultEnv           DefaultKind = "env"        // of each training container
	DefaultResource      DefaultKind = "resource"   // of each training container
)

// FieldDefault is a value for a field that the user does not set.
type FieldDefault struct {
	// Kind is the kind of the field.
	Kind DefaultKind
	// Name is the key, the variable or the resource; empty for kinds without names.
	Name string
	// Value is the value as text.
	Value string
	// Source is who defines the default, such as policy:research.
	Source string
	// OnlyWarn is true if a warning names the value instead of setting it.
	OnlyWarn bool
}

// ApplyDefaults sets the fields of w that the user does not set, and records the source of each value in
// the annotation [gang.AnnotationInjected]. The first default of a field has precedence. A second call
// with the same defaults changes nothing. The warnings name defaults that might replace a value of the
// user. A workload with too many containers stays as it is, because parsing denies it.
func ApplyDefaults(w gang.Workload, defaults []FieldDefault) (gang.Warnings, error) {
	if hasTooManyContainers(w) {
		return nil, nil
	}
	record, err := ReadRecord(w)
	if err != nil {
		return nil, nil //nolint:nilerr // Apply reports an invalid record
	}
	if record == nil {
		record = &Record{}
	}
	var warnings gang.Warnings
	var targets []defaultTarget
	containers := trainingContainerNames(w, record)
	values := map[defaultTarget]FieldDefault{}
	for _, d := range defaults {
		for _, t := range d.targets(w, containers) {
			_, isPlanned := values[t]
			if isPlanned || t.isSet(w) {
				continue
			}
			if d.OnlyWarn {
				warnings = append(warnings, gang.NewWarning(t.path(w), fmt.Sprintf(
					"is not set; in the mode enforce, the policy would set %q (%s)", d.Value, d.Source)))
				continue
			}
			if path := t.findEnvFrom(w); path != nil {
				warnings = append(warnings, gang.NewWarning(path, fmt.Sprintf(
					"may contain %s, so the default %q of the policy is not set; set the variable in env", t.name, d.Value)))
				continue
			}
			values[t], targets = d, append(targets, t)
		}
	}
	current := record.keepSetDefaults(w)
	if len(targets) == 0 && len(current) == len(record.Defaults) {
		return warnings, nil
	}
	record.Defaults = current
	for _, t := range targets {
		t.set(w, values[t].Value)
		record.Defaults.set(t.key(), values[t].Source)
	}
	return warnings, record.writeTo(w)
}

// hasTooManyContainers reports whether [gang.Parse] denies a workload because of its number of containers or
// the length of their list. The time to find the targets of defaults grows with the product of both.
func hasTooManyContainers(w gang.Workload) bool {
	spec := &w.Template().Spec
	return len(spec.Containers)+len(spec.InitContainers) > gang.MaxContainers ||
		len(w.Meta().Annotations[gang.AnnotationContainers]) > gang.MaxAnnotationLength
}

// keepSetDefaults returns the recorded defaults of the fields that w sets. A manifest that was copied from
// a live object contains its record, but not necessarily its values.
func (r *Record) keepSetDefaults(w gang.Workload) digestsByName {
	var current digestsByName
	for key, source := range r.Defaults {
		if t, ok := parseDefaultTarget(key); ok && t.exists(w) && t.isSet(w) {
			current.set(key, source)
		}
	}
	return current
}

// ReadDefault returns the current values of the field of a default, one for each training container if
// the field belongs to a container. The value of an absent field is empty.
func ReadDefault(w gang.Workload, d FieldDefault) []CurrentValue {
	record, err := ReadRecord(w)
	if err != nil || record == nil {
		record = &Record{}
	}
	var values []CurrentValue
	for _, t := range d.targets(w, trainingContainerNames(w, record)) {
		values = append(values, CurrentValue{Path: t.path(w).String(), Value: t.read(w)})
	}
	return values
}

// CurrentValue is the value of a field.
type CurrentValue struct {
	// Path is the path of the field.
	Path string
	// Value is the value as text; empty if the field is absent, and <valueFrom> for a variable with a source.
	Value string
}

// PreserveDefaults sets the recorded defaults of a StatefulSet in an update that does not contain them.
// A changed policy therefore does not change the pods of a running gang. The order of a list is that of old.
func PreserveDefaults(old, updated *appsv1.StatefulSet) {
	before, after := gang.Workload{StatefulSet: old}, gang.Workload{StatefulSet: updated}
	if hasTooManyContainers(before) || hasTooManyContainers(after) {
		return
	}
	record, err := ReadRecord(before)
	if err != nil || record == nil {
		return
	}
	positions := map[defaultTarget]int{} // of the values that are unset
	for key := range record.Defaults {
		t, ok := parseDefaultTarget(key)
		if !ok || !t.exists(before) || !t.exists(after) || t.isSet(after) {
			continue
		}
		if position := t.position(before); position >= 0 {
			positions[t] = position
		}
	}
	byPosition := func(x, y defaultTarget) int { return positions[x] - positions[y] }
	for _, t := range slices.SortedFunc(maps.Keys(positions), byPosition) {
		t.set(after, t.read(before))
	}
}

// defaultTarget is one field of a workload that a default can fill.
type defaultTarget struct {
	kind      DefaultKind
	container string // for fields of containers
	name      string
}

// key returns the key of the target in a record.
func (t defaultTarget) key() string {
	if t.isOfContainer() {
		return string(t.kind) + "/" + t.container + "/" + t.name
	}
	return string(t.kind) + "/" + t.name
}

func (t defaultTarget) isOfContainer() bool { return t.kind == DefaultEnv || t.kind == DefaultResource }

// isOfJob reports whether only a Job has the field. Kueue does not manage a StatefulSet whose label is set
// after the webhook of Kueue.
func (t defaultTarget) isOfJob() bool {
	return slices.Contains([]DefaultKind{DefaultRuntime, DefaultTTL, DefaultQueue}, t.kind)
}

// parseDefaultTarget returns the target of a key in a record.
func parseDefaultTarget(key string) (defaultTarget, bool) {
	kind, name, ok := strings.Cut(key, "/")
	t := defaultTarget{kind: DefaultKind(kind), name: name}
	if ok && t.isOfContainer() {
		t.container, t.name, ok = strings.Cut(name, "/")
	}
	return t, ok
}

// targets returns the fields of a default in a workload with the given training containers.
func (d FieldDefault) targets(w gang.Workload, containers []string) []defaultTarget {
	t := defaultTarget{kind: d.Kind, name: d.Name}
	switch {
	case w.Job == nil && t.isOfJob():
		return nil
	case d.Kind == DefaultToleration:
		t.name = newTolerationName(parseToleration(d.Value))
	case t.isOfContainer():
		var targets []defaultTarget
		for _, name := range containers {
			ofContainer := defaultTarget{kind: d.Kind, container: name, name: d.Name}
			if ofContainer.exists(w) {
				targets = append(targets, ofContainer)
			}
		}
		return targets
	}
	return []defaultTarget{t}
}

// trainingContainerNames returns the names of the training containers: those of the annotation without
// repetitions, else those of an earlier injection, else the container that the parser finds.
func trainingContainerNames(w gang.Workload, record *Record) []string {
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
	return []string{gang.FindTrainingContainer(w.Template())}
}

// findContainer returns the container of the target; nil if the target has none.
func (t defaultTarget) findContainer(w gang.Workload) (*corev1.Container, int) {
	containers := w.Template().Spec.Containers
	for i := range containers {
		if containers[i].Name == t.container {
			return &containers[i], i
		}
	}
	return nil, -1
}

// exists reports whether the workload has the object that contains the field.
func (t defaultTarget) exists(w gang.Workload) bool {
	if !t.isOfContainer() {
		return w.Job != nil || !t.isOfJob()
	}
	c, _ := t.findContainer(w)
	return c != nil
}

// findEnvFrom returns the path of a source of variables that may define the variable of the target; nil
// without one. A variable in env would replace the value of the source.
func (t defaultTarget) findEnvFrom(w gang.Workload) *field.Path {
	if t.kind != DefaultEnv {
		return nil
	}
	c, i := t.findContainer(w)
	for j, source := range c.EnvFrom {
		if strings.HasPrefix(t.name, source.Prefix) {
			return containerPath(i).Child("envFrom").Index(j)
		}
	}
	return nil
}

func containerPath(i int) *field.Path {
	return field.NewPath("spec", "template", "spec", "containers").Index(i)
}

func parseToleration(text string) corev1.Toleration {
	var toleration corev1.Toleration
	_ = json.Unmarshal([]byte(text), &toleration) // the policy wrote the text, or the value is empty
	return toleration
}

// newTolerationName returns the name of the target for a toleration. Two tolerations of one taint with
// different effects are different targets.
func newTolerationName(t corev1.Toleration) string { return t.Key + ":" + string(t.Effect) }

// parseQuantity returns a quantity that the policy has validated, or 0.
func parseQuantity(text string) resource.Quantity {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return quantity
}

func formatSeconds[T int32 | int64](seconds *T) string {
	if seconds == nil {
		return ""
	}
	return strconv.FormatInt(int64(*seconds), 10)
}
