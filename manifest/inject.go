package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	jsonpatch2 "gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

// Injection is what became of one object of a document.
type Injection struct {
	injectors.Result
	// Object names it: kind/name.
	Object string
	// Namespace is the one that the manifest names, empty when it names none.
	Namespace string
	// Err is the denial, nil when the object was injected or left alone.
	Err error
}

// Inject injects every labelled workload of the document, items of lists included,
// with the given engine. Objects that name no namespace are read as if in the
// given one, and stay without. The error is for a labelled object that cannot be
// read; denials are in the injections, and such an object is left as it was.
func (d *Document) Inject(e *injectors.Engine, namespace string) ([]Injection, error) {
	var all []Injection
	err := d.walk(func(path, kind string, text []byte) error {
		w, err := decode(kind, text)
		if err != nil || w == nil {
			return err
		}
		in := Injection{Object: strings.ToLower(string(w.Kind())) + "/" + w.Meta().Name, Namespace: w.Meta().Namespace}
		if in.Namespace == "" {
			w.Meta().Namespace = namespace
		}
		before := w.DeepCopy()
		in.Result, in.Err = e.Inject(*w)
		all = append(all, in)
		return d.patch(path, plan.Diff(text, before.Object(), w.Object()))
	})
	return all, err
}

// Holds reports whether one of the documents has an object of the given kind,
// namespace and name.
func Holds(docs []*Document, kind, namespace, name string) bool {
	found := false
	for _, d := range docs {
		_ = d.walk(func(_, k string, text []byte) error { // looking cannot fail
			var obj metav1.PartialObjectMetadata
			if k == kind && json.Unmarshal(text, &obj) == nil && obj.Name == name && obj.Namespace == namespace {
				found = true
			}
			return nil
		})
	}
	return found
}

// walk visits the document's objects, those in lists and in lists of lists too,
// each with its JSON pointer in the document and its kind.
func (d *Document) walk(visit func(path, kind string, text []byte) error) error {
	if d.json == nil {
		return nil
	}
	return walk("", "", d.json, func(path, kind string, text []byte) error {
		if err := visit(path, kind, text); err != nil {
			return fmt.Errorf("reading %s: %w", d, err)
		}
		return nil
	})
}

func walk(path, kind string, text []byte, visit func(path, kind string, text []byte) error) error {
	var head struct {
		Kind  string          `json:"kind"`
		Items json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil //nolint:nilerr // no Kubernetes object, so not ours
	}
	if head.Kind != "" {
		kind = head.Kind
	}
	item, isList := strings.CutSuffix(kind, "List")
	var items []json.RawMessage
	if !isList || json.Unmarshal(head.Items, &items) != nil {
		return visit(path, kind, text)
	}
	for i, text := range items {
		// The items of a JobList need not say that they are Jobs.
		if err := walk(path+"/items/"+strconv.Itoa(i), item, text, visit); err != nil {
			return err
		}
	}
	return nil
}

// decode reads a labelled workload, and returns nil for everything else: what is
// not ours need not be as our types want it.
func decode(kind string, text []byte) (*gang.Workload, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Metadata   struct {
			Labels map[string]json.RawMessage `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Metadata.Labels[gang.LabelFramework] == nil {
		return nil, nil //nolint:nilerr // not ours to judge
	}
	w, ok := workloadOf(kind, head.APIVersion)
	if !ok {
		return nil, nil
	}
	if err := json.Unmarshal(text, w.Object()); err != nil {
		return nil, fmt.Errorf("as a %s: %w", kind, err)
	}
	return &w, nil
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
		return fmt.Errorf("patching: %w", err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return fmt.Errorf("patching: %w", err)
	}
	if d.json, err = p.Apply(d.json); err != nil {
		return fmt.Errorf("patching: %w", err)
	}
	d.changed = true
	return nil
}
