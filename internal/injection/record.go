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
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, err
	}
	if r.Values == nil {
		values, err := decodeFormerValues(text)
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
// workload. The name is empty if a container has only one value of the kind.
func (r *Record) Has(kind, container, name string) bool {
	_, ok := r.Values[key{kind, container, name}.String()]
	return ok
}

// ByName returns the recorded values of a kind of the pod or of the workload, by name. A nil record has none.
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

// hasKind reports whether the record contains a value of a kind.
func (r *Record) hasKind(kind string) bool {
	for text := range r.Values {
		if strings.HasPrefix(text, kind+"/") {
			return true
		}
	}
	return false
}

// field returns the recorded value of a field of the workload; empty if the record does not have it.
func (r *Record) field(name string) string {
	return r.Values[key{kind: KindField, name: name}.String()]
}

// TrainingContainers returns the names of the containers of a pod template that have recorded variables,
// in the order of the template. Init containers are not included.
func (r *Record) TrainingContainers(template *corev1.PodTemplateSpec) []string {
	withEnv := map[string]bool{}
	for k := range r.digests() {
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

// digests returns the digests of the recorded targets.
func (r *Record) digests() map[key]string {
	digests := make(map[key]string, len(r.Values))
	for text, digest := range r.Values {
		if k, ok := parseKey(text); ok {
			digests[k] = digest
		}
	}
	return digests
}

// findUnmodified returns the recorded targets that still have the recorded values.
func (r *Record) findUnmodified(p *podTemplate) map[key]bool {
	unmodified, digester := map[key]bool{}, newDigester(p)
	for k, digest := range r.digests() {
		if digester.matches(k, digest) {
			unmodified[k] = true
		}
	}
	return unmodified
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
	unmodified := r.findUnmodified(pod)
	for _, name := range []string{gang.LabelAttempt, gang.LabelYuniKornApplication} { // each restart changes them
		unmodified[key{kind: KindLabel, name: name}] = true
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
	return len(r.findUnmodified(newPodTemplate(w.Template()))) == len(r.digests())
}

// SetKey sets a key of a map that can be nil.
func SetKey[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[key] = value
}
