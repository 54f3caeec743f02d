package vet

import (
	"rollcall.training/internal/manifest/typeerror"
)

func checkUndecodable(r *reporter, o *inputObject) {
	if o.decodeError == nil || o.labeled == nil {
		return
	}
	mismatches := typeerror.Explain(o.target.JSON, o.decodeError)
	if len(mismatches) == 0 {
		r.add(o.fieldPath(""), "", "%s", o.decodeError.Error())
	}
	for _, m := range mismatches {
		r.add(o.fieldPath(m.Path), m.Fix, "%s", m.Message)
	}
}

func checkDuplicateObject(r *reporter, o *inputObject) {
	first := r.findObject(o.Kind, o.namespace, o.Name)
	if o.labeled == nil || o.Name == "" || first == o || first.Document.Source != o.Document.Source {
		return
	}
	r.add("metadata.name", "rename or delete one of the two",
		"another %s with this name is on line %d, and the later one overwrites it or is rejected",
		o.Kind, first.Line("metadata.name"))
}
