package manifest

import (
	"encoding/json"
	"fmt"
	"slices"

	kjson "sigs.k8s.io/json"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest/typeerror"
)

// Object is one Kubernetes object of a document: the document itself, or an item of a list.
type Object struct {
	// Document is the document that contains the object.
	Document *Document
	// APIVersion and Kind are the type. An item of a JobList may have no APIVersion.
	APIVersion, Kind string
	// Namespace is the namespace in the manifest. It is empty if the manifest has none.
	Namespace string
	// Name is the name of the object.
	Name string
	// Labels and Annotations are those of the object. They omit values that are not strings, which
	// the API server rejects.
	Labels, Annotations map[string]string
	// JSON is the object as JSON.
	JSON []byte

	jsonPointer string // the pointer of the object in the document
}

// Objects returns the objects of the document in their order, including items of lists. It omits
// objects without a kind.
func (d *Document) Objects() []Object {
	all := listObjects(Object{Document: d, JSON: d.jsonText})
	return slices.DeleteFunc(all, func(o Object) bool { return o.Kind == "" })
}

// ListObjects returns the objects of all documents in their order.
func ListObjects(docs []*Document) []Object {
	var objects []Object
	for _, d := range docs {
		objects = append(objects, d.Objects()...)
	}
	return objects
}

func stringOrEmpty(v any) string {
	s, _ := v.(string)
	return s
}

// stringMap returns the strings of a JSON mapping. It returns an empty map for any other value.
func stringMap(v any) map[string]string {
	tree, _ := v.(map[string]any)
	out := make(map[string]string, len(tree))
	for key, value := range tree {
		if s, ok := value.(string); ok {
			out[key] = s
		}
	}
	return out
}

// HasFrameworkLabel reports whether the object has the label [gang.LabelFramework], even with a value
// that is not a string.
func (o Object) HasFrameworkLabel() bool {
	var head struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"labels"`
		} `json:"metadata"`
	}
	return json.Unmarshal(o.JSON, &head) == nil && head.Metadata.Labels[gang.LabelFramework] != nil
}

// DecodeWorkload decodes a workload, with or without the framework label. The result is false if the
// object is not a workload. unknown are the paths of fields that the types of this build do not have.
// An API server of the same version drops or rejects them. The error reports an object that no API
// server accepts. It wraps a [json.UnmarshalTypeError] if a value has the wrong type.
func (o Object) DecodeWorkload() (w gang.Workload, unknown []string, ok bool, err error) {
	w, ok = newWorkload(o.Kind, o.APIVersion)
	if !ok {
		return w, nil, false, nil
	}
	if unknown, err = o.DecodeStrict(w.Object()); err != nil {
		return w, nil, true, fmt.Errorf("decoding %s: %w", o.Kind, err)
	}
	return w, unknown, true, nil
}

// DecodeStrict decodes the object like [Object.Decode]. unknown are the paths of the fields that the type does not
// have. The error is a [json.UnmarshalTypeError] if a value has the wrong type.
func (o Object) DecodeStrict(into any) (unknown []string, err error) {
	return typeerror.Decode(o.JSON, into)
}

// Decode decodes the object into a Go type with the rules of the API server: the names of fields are
// case-sensitive.
func (o Object) Decode(into any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, into); err != nil {
		return fmt.Errorf("decoding %s: %w", o.Kind, err)
	}
	return nil
}

// newWorkload returns an empty workload of the given kind. The result is false if the kind or the
// version is not that of a workload. An empty apiVersion matches, because an item of a JobList needs
// no type.
func newWorkload(kind, apiVersion string) (gang.Workload, bool) {
	w, ok := gang.NewWorkload(gang.Kind(kind))
	if !ok || apiVersion != "" && apiVersion != w.GroupKind().Group+"/v1" {
		return gang.Workload{}, false
	}
	return w, true
}
