package injection

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
)

// Record is the content of the annotation [gang.AnnotationInjected]. It documents what admission
// injected. The next admission of the object uses it to determine what Rollcall owns.
type Record struct {
	// Injector is the name of the injector.
	Injector string `json:"injector"`
	// Build is the build of Rollcall that injected the workload, if known (gang.Config).
	Build string `json:"build,omitempty"`
	// Values contains a digest of each injected value by its key, such as env/trainer/RANK or label/app. If the
	// current value has another digest, somebody has edited the value, and it belongs to the user. Fields of the
	// workload, such as field/backoffLimit, have their value instead of a digest. See [KindEnv] for all kinds.
	Values map[string]string `json:"values,omitempty"`
	// Defaults are the sources of the values that a policy set, by kind and name, such as
	// env/trainer/NCCL_IB_HCA: policy:research. The values belong to the user afterward.
	Defaults map[string]string `json:"defaults,omitempty"`
	// Replicas is the last size of a StatefulSet above 0, which its ranks were injected with.
	Replicas int32 `json:"replicas,omitempty"`
}

// ReadRecord returns the record of an earlier admission, or nil without the annotation. The error is
// for an annotation that is not a record.
func ReadRecord(w gang.Workload) (*Record, error) {
	text, ok := w.Meta().Annotations[gang.AnnotationInjected]
	if !ok {
		return nil, nil
	}
	r, err := decodeRecord(text)
	if err != nil {
		return nil, fmt.Errorf("decoding the annotation %s: %w", gang.AnnotationInjected, err)
	}
	return r, nil
}

func decodeRecord(text string) (*Record, error) {
	if len(text) > gang.MaxWrittenAnnotationLength {
		return nil, fmt.Errorf("it has %d bytes", len(text))
	}
	var r Record
	data := []byte(text)
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.Values == nil {
		values, err := decodeFormerValues(data)
		if err != nil {
			return nil, err
		}
		r.Values = values
	}
	if n := r.countLargestKind(); n > maxRecordedTargets {
		return nil, fmt.Errorf("it contains %d values of one kind", n)
	}
	if !r.hasSizeOf(text) {
		return nil, fmt.Errorf("its size has another spelling")
	}
	return &r, nil
}

// sizePattern matches the size in the text of a record. The admission policies of the chart read the size
// by the same pattern (rollcall.recordedSize in templates/_helpers.tpl).
var sizePattern = regexp.MustCompile(`"replicas":[0-9]+`)

// hasSizeOf reports whether the policies of the chart read the same size from the text of the record. JSON
// permits other spellings, such as "Replicas" or a second value, which the policies would not see.
func (r *Record) hasSizeOf(text string) bool {
	found := sizePattern.FindAllString(text, 2)
	if r.Replicas == 0 {
		return len(found) == 0
	}
	return len(found) == 1 && found[0] == fmt.Sprintf(`"replicas":%d`, r.Replicas)
}

// RecordedSize returns the size in the record of a StatefulSet; 0 without a size or without a valid record.
func RecordedSize(w gang.Workload) int32 {
	if record, err := ReadRecord(w); err == nil && record != nil {
		return record.Replicas
	}
	return 0
}

// ForgetSize removes the size from the record of a new StatefulSet without replicas. The size in a copied
// record is not one that the StatefulSet had, and Rollcall scales a StatefulSet only to its former size.
// An invalid record stays, and [Apply] denies it.
func ForgetSize(w gang.Workload) {
	record, err := ReadRecord(w)
	if err != nil || record == nil || record.Replicas == 0 || w.StatefulSet == nil || w.Ranks() > 0 {
		return
	}
	record.Replicas = 0
	if err := record.WriteTo(w); err != nil { // a record that was decoded can be encoded
		delete(w.Meta().Annotations, gang.AnnotationInjected)
	}
}

// maxRecordedTargets is the maximum number of recorded values of one kind in a container or in a pod
// template. Injectors set about 30. A user could list any number of the user's own values, and the
// removal of each costs as much as their number.
const maxRecordedTargets = 200

// countLargestKind returns the largest number of recorded values, or of recorded defaults, of one kind in a
// container or outside of containers. Some kinds have one value for each container, of which there are at most
// [gang.MaxContainers].
func (r *Record) countLargestKind() (n int) {
	values, defaults := map[key]int{}, map[string]int{} // the second by container
	for text := range r.Values {
		if k, ok := parseKey(text); ok {
			k.name = ""
			values[k]++
			n = max(n, values[k])
		}
	}
	for text := range r.Defaults {
		k, _ := parseKey(text)
		if k.kind != KindEnv && k.kind != KindResource { // a policy sets no other fields of containers
			k.container = ""
		}
		defaults[k.container]++
		n = max(n, defaults[k.container])
	}
	return n
}

// WriteTo writes the record to the annotation [gang.AnnotationInjected].
func (r *Record) WriteTo(w gang.Workload) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the annotation %s: %w", gang.AnnotationInjected, err)
	}
	SetKey(&w.Meta().Annotations, gang.AnnotationInjected, string(text))
	return nil
}

// Has reports whether the record contains a value. The container is empty for values of the pod and of the
// workload. The name is empty if a container has only one value of the kind. A nil record has no values.
func (r *Record) Has(kind, container, name string) bool { return r.has(key{kind, container, name}) }

func (r *Record) has(k key) bool {
	if r == nil {
		return false
	}
	_, ok := r.Values[k.String()]
	return ok
}

// ByName returns the recorded values of a kind of the pod or of the workload, by name. A nil record has no values.
func (r *Record) ByName(kind string) map[string]string {
	values := map[string]string{}
	if r == nil {
		return values
	}
	for text, value := range r.Values {
		if name, ok := strings.CutPrefix(text, kind+"/"); ok {
			values[name] = value
		}
	}
	return values
}

// TrainingContainers returns the names of the containers of a pod template that have recorded variables,
// in the order of the template. Init containers are not included.
func (r *Record) TrainingContainers(template *corev1.PodTemplateSpec) []string {
	withEnv := map[string]bool{}
	for text := range r.Values {
		k, _ := parseKey(text)
		withEnv[k.container] = withEnv[k.container] || k.kind == KindEnv
	}
	var names []string
	for i := range template.Spec.Containers {
		if name := template.Spec.Containers[i].Name; withEnv[name] {
			names = append(names, name)
		}
	}
	return names
}

// findUnmodified returns the recorded targets that still have the recorded values, and whether these are all targets.
func (r *Record) findUnmodified(d *digester) (unmodified map[key]bool, isComplete bool) {
	unmodified, isComplete = map[key]bool{}, true
	for text, digest := range r.Values {
		k, isTarget := parseKey(text)
		switch {
		case isTarget && d.matches(k, digest):
			unmodified[k] = true
		case isTarget:
			isComplete = false
		}
	}
	return unmodified, isComplete
}

// CurrentValue is the state of a recorded value in a workload.
type CurrentValue struct {
	// Text is the value if it is a text or a number; empty for a value that is absent, a list or an object.
	Text string
	// Edited is true if the value is not the recorded value: somebody changed or removed it since.
	Edited bool
}

// ReadCurrent returns the states of the recorded values in w by their keys.
func (r *Record) ReadCurrent(w gang.Workload) (map[string]CurrentValue, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.Object())
	if err != nil {
		return nil, fmt.Errorf("reading the fields of %s %s: %w", w.Kind(), w.Meta().Name, err)
	}
	pod := newPodTemplate(w.Template())
	unmodified, _ := r.findUnmodified(newDigester(pod))
	for _, name := range []string{gang.LabelAttempt, gang.LabelYuniKornApplication} { // each restart changes them
		unmodified[key{kind: kindLabel, name: name}] = true
	}
	values := make(map[string]CurrentValue, len(r.Values))
	for text, recorded := range r.Values {
		if k, isTarget := parseKey(text); isTarget {
			current, _ := targets[k.kind].get(pod, k).(string)
			values[text] = CurrentValue{Text: current, Edited: !unmodified[k]}
		} else if path, isField := strings.CutPrefix(text, KindField+"/"); isField {
			values[text] = readField(tree, path, recorded)
		}
	}
	return values, nil
}

// readField returns the state of a recorded field below spec of a workload. Of an object, the record has only a part.
func readField(tree map[string]any, path, recorded string) CurrentValue {
	value, found, _ := unstructured.NestedFieldNoCopy(tree, strings.Split("spec."+path, ".")...)
	if _, isObject := value.(map[string]any); isObject {
		return CurrentValue{Text: recorded}
	}
	if !found {
		return CurrentValue{Edited: true}
	}
	text := fmt.Sprint(value)
	return CurrentValue{Text: text, Edited: text != recorded}
}

// IsUnmodified reports whether all recorded targets of w still have the recorded values.
func (r *Record) IsUnmodified(w gang.Workload) bool {
	_, isUnmodified := r.findUnmodified(newDigester(newPodTemplate(w.Template())))
	return isUnmodified
}

// SetKey sets a key of a map that can be nil.
func SetKey[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[key] = value
}
