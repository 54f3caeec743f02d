package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	jsonpatch2 "gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

// Injection is what became of one object of a document.
type Injection struct {
	injectors.Result
	// Object names it: kind/name.
	Object string
	// Err is the denial, nil when the object was injected or left alone.
	Err error
}

// Inject injects every labelled workload of the document, list items included,
// with the given engine. Objects that name no namespace are read as if in the
// given one, and stay without. The error is for a document that cannot be read;
// denials are in the injections, and such an object is left as it was.
func (d *Document) Inject(e *injectors.Engine, namespace string) ([]Injection, error) {
	if d.json == nil {
		return nil, nil
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(d.json, &list); err != nil {
		return nil, fmt.Errorf("reading %s as a Kubernetes object: %w", d, err)
	}
	if !strings.HasSuffix(list.Kind, "List") {
		in, ops, err := injectOne(e, d.json, namespace)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", d, err)
		}
		return in, d.patch("", ops)
	}
	var all []Injection
	for i, item := range list.Items {
		in, ops, err := injectOne(e, item, namespace)
		if err != nil {
			return nil, fmt.Errorf("reading %s, item %d: %w", d, i+1, err)
		}
		if err := d.patch("/items/"+strconv.Itoa(i), ops); err != nil {
			return nil, err
		}
		all = append(all, in...)
	}
	return all, nil
}

// injectOne injects one object; an object that is no labelled workload gives
// nothing.
func injectOne(e *injectors.Engine, text []byte, namespace string) ([]Injection, []jsonpatch2.Operation, error) {
	obj, err := decode(text)
	if err != nil || obj == nil {
		return nil, nil, err
	}
	w, err := gang.WorkloadOf(obj)
	if err != nil {
		return nil, nil, err
	}
	if !w.Labelled() {
		return nil, nil, nil
	}
	if w.Meta().Namespace == "" {
		w.Meta().Namespace = namespace
	}
	before := w.DeepCopy()
	in := Injection{Object: strings.ToLower(string(w.Kind())) + "/" + w.Meta().Name}
	in.Result, in.Err = e.Inject(w)
	ops, err := plan.Diff(text, before.Object(), w.Object())
	return []Injection{in}, ops, err
}

// decode reads a Job or StatefulSet; nil for any other object.
func decode(text []byte) (runtime.Object, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, fmt.Errorf("reading apiVersion and kind: %w", err)
	}
	var obj runtime.Object
	switch meta.GroupVersionKind() {
	case batchv1.SchemeGroupVersion.WithKind(string(gang.Job)):
		obj = &batchv1.Job{}
	case appsv1.SchemeGroupVersion.WithKind(string(gang.StatefulSet)):
		obj = &appsv1.StatefulSet{}
	default:
		return nil, nil
	}
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", meta.Kind, err)
	}
	return obj, nil
}

// patch applies the operations to the document's own tree, below the prefix.
func (d *Document) patch(prefix string, ops []jsonpatch2.Operation) error {
	if len(ops) == 0 {
		return nil
	}
	for i := range ops {
		ops[i].Path = prefix + ops[i].Path
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("patching %s: %w", d, err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return fmt.Errorf("patching %s: %w", d, err)
	}
	if d.json, err = p.Apply(d.json); err != nil {
		return fmt.Errorf("patching %s: %w", d, err)
	}
	d.changed = true
	return nil
}
