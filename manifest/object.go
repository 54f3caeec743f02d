package manifest

import (
	"encoding/json"
	"fmt"

	kjson "sigs.k8s.io/json"

	"rollcall.training/gang"
)

// Object is one Kubernetes object of a document: the document itself, or an item of a
// list.
type Object struct {
	// Document is where it stands.
	Document *Document
	// APIVersion and Kind are its type. The items of a JobList need not say theirs.
	APIVersion, Kind string
	// Namespace is the one that the manifest names, empty when it names none.
	Namespace string
	// Name is its name.
	Name string
	// Labels and Annotations are its own. Values that are no text, which no API server
	// takes, are left out.
	Labels, Annotations map[string]string
	// Text is the object as JSON.
	Text []byte

	pointer string // where it stands in the document
}

// Objects lists the objects of the document in their order, items of lists included.
// What is no Kubernetes object, for want of a kind, is left out.
func (d *Document) Objects() []Object {
	var all []Object
	_ = d.walk(func(path, kind string, text []byte) error { // looking cannot fail
		if kind == "" {
			return nil
		}
		var head struct {
			APIVersion any `json:"apiVersion"`
			Metadata   any `json:"metadata"`
		}
		_ = json.Unmarshal(text, &head) // has been read before, for the kind
		meta, _ := head.Metadata.(map[string]any)
		all = append(all, Object{
			Document: d, APIVersion: word(head.APIVersion), Kind: kind, Namespace: word(meta["namespace"]), Name: word(meta["name"]),
			Labels: words(meta["labels"]), Annotations: words(meta["annotations"]), Text: text, pointer: path,
		})
		return nil
	})
	return all
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

func words(v any) map[string]string {
	tree, _ := v.(map[string]any)
	out := make(map[string]string, len(tree))
	for k, v := range tree {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// Labelled reports whether the object carries [gang.LabelFramework], be it with a value
// that is no text.
func (o Object) Labelled() bool {
	var head struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"labels"`
		} `json:"metadata"`
	}
	return json.Unmarshal(o.Text, &head) == nil && head.Metadata.Labels[gang.LabelFramework] != nil
}

// Workload reads the object as a workload, labelled or not; false when it is of another
// kind. Unknown are the paths of fields that this build's types do not have: the API
// server refuses or drops them, unless it is newer than they are. The error is for an
// object that the API server could not read either; it wraps a [json.UnmarshalTypeError]
// where a value is of the wrong type.
func (o Object) Workload() (w gang.Workload, unknown []string, ok bool, err error) {
	w, ok = workloadOf(o.Kind, o.APIVersion)
	if !ok {
		return w, nil, false, nil
	}
	strict, err := kjson.UnmarshalStrict(o.Text, w.Object(), kjson.DisallowUnknownFields)
	if err != nil {
		again, _ := workloadOf(o.Kind, o.APIVersion)
		if plain := json.Unmarshal(o.Text, again.Object()); plain != nil {
			err = plain // the same, and of a type that can be told from others
		}
		return w, nil, true, fmt.Errorf("as a %s: %w", o.Kind, err)
	}
	for _, e := range strict {
		if at, ok := e.(kjson.FieldError); ok { //nolint:errorlint // the library's own list, never wrapped
			unknown = append(unknown, at.FieldPath())
		}
	}
	return w, unknown, true, nil
}

// Decode reads the object into a Go type as the API server would: names of fields are
// those of the type to the letter.
func (o Object) Decode(into any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.Text, into); err != nil {
		return fmt.Errorf("as a %s: %w", o.Kind, err)
	}
	return nil
}

// workloadOf is a new workload of the kind; false for all others. Both kinds are at
// version v1 of their groups; the items of a JobList need not say so.
func workloadOf(kind, apiVersion string) (gang.Workload, bool) {
	w, ok := gang.NewWorkload(gang.Kind(kind))
	if !ok || apiVersion != "" && apiVersion != w.GroupKind().Group+"/v1" {
		return gang.Workload{}, false
	}
	return w, true
}
