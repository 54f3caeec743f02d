package manifest

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/injection"
)

// Injection is the result of the injection of one object.
type Injection struct {
	injectors.Result
	// Object identifies the object as kind/name, with the kind in lower case.
	Object string
	// Namespace is the namespace in the manifest. It is empty if the manifest has none.
	Namespace string
	// Err is the denial. It is nil if the object was injected or needs no injection.
	Err error
}

// Inject injects every labeled workload of the document, including items of lists. A workload without
// a namespace is injected as if it were in the given namespace, but its manifest remains without one.
// A denied workload remains unchanged, and its denial is in the result. The error reports a labeled
// object that cannot be decoded.
//
// The function inject injects a workload in place. Its error is a denial.
func (d *Document) Inject(
	namespace string, inject func(gang.Workload) (injectors.Result, error),
) ([]Injection, error) {
	var injections []Injection
	var ops []jsonpatch.Operation
	for _, object := range d.Objects() {
		if !object.HasFrameworkLabel() {
			continue // an object that is not a gang need not be valid
		}
		w, _, isWorkload, err := object.DecodeWorkload()
		if err != nil {
			return injections, fmt.Errorf("reading %s: %w", d, err)
		}
		if !isWorkload {
			continue
		}
		injected := Injection{
			Object:    w.Kind().ObjectName(w.Meta().Name),
			Namespace: w.Meta().Namespace,
		}
		if injected.Namespace == "" {
			w.Meta().Namespace = namespace
		}
		before := w.DeepCopy()
		injected.Result, injected.Err = inject(w)
		injections = append(injections, injected)
		if injected.Err != nil {
			continue
		}
		for _, op := range injection.Diff(object.JSON, before.Object(), w.Object()) {
			op.Path = object.jsonPointer + op.Path
			ops = append(ops, op)
		}
	}
	if err := d.applyPatch(ops); err != nil {
		return injections, fmt.Errorf("patching %s: %w", d, err)
	}
	return injections, nil
}

// applyPatch applies JSON patch operations to the document. One call with the operations of all
// objects of a list decodes the list once.
func (d *Document) applyPatch(ops []jsonpatch.Operation) error {
	if len(ops) == 0 {
		return nil
	}
	patched, err := fieldpath.ApplyPatch(d.jsonText, ops)
	if err != nil {
		return err
	}
	d.jsonText, d.modified = patched, true
	return nil
}
