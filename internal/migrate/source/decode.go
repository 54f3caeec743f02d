package source

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"rollcall.training/internal/manifest/typeerror"
	"rollcall.training/internal/text"
)

// Decode decodes the value into a Kubernetes type and reports whether it could. Fields that the
// type does not have are recorded as dropped. Values of the wrong type are errors of the manifest.
func (f Field) Decode(to any) bool {
	f.markRead()
	if !f.Exists() {
		return false
	}
	text, err := json.Marshal(f.value)
	if err != nil {
		f.MarkInvalid(err.Error())
		return false
	}
	unknown, err := kjson.UnmarshalStrict(text, to)
	if err != nil {
		f.reportTypeErrors(text, reflect.New(reflect.TypeOf(to).Elem()).Interface(), err)
		return false
	}
	for _, u := range unknown {
		f.recordUnknownField(u)
	}
	return true
}

// reportTypeErrors adds an error for each value that does not fit the type. The decoder's error has
// no path, so the paths come from a second decoding into fresh, a new value of the type.
func (f Field) reportTypeErrors(raw []byte, fresh any, err error) {
	found := typeerror.Explain(raw, json.Unmarshal(raw, fresh))
	if len(found) == 0 {
		reason := text.JoinLines(strings.TrimPrefix(err.Error(), "json: "))
		f.MarkInvalid("cannot be decoded: " + text.Shorten(reason, 80+len("…")))
	}
	for _, mismatch := range found {
		detail := mismatch.Message
		if mismatch.Fix != "" {
			detail += "; " + mismatch.Fix
		}
		f.nearestField(mismatch.Path).MarkInvalid(detail)
	}
}

// nearestField returns the field at a path below f, or its nearest existing parent.
func (f Field) nearestField(path string) Field {
	if f.path != nil {
		path = f.Path() + "." + path
	}
	for at := f; ; {
		children := at.presentChildren()
		i := slices.IndexFunc(children, func(child Field) bool {
			rest, ok := strings.CutPrefix(path, child.Path())
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
		if i < 0 {
			return at
		}
		at = children[i]
	}
}

// recordUnknownField records a field that a Kubernetes type does not have. The API server prunes it, so
// it had no effect. The decoder's error has the form: unknown field "spec.name".
func (f Field) recordUnknownField(err error) {
	name := err.Error()
	if _, quoted, ok := strings.Cut(name, `"`); ok {
		name = strings.TrimSuffix(quoted, `"`)
	}
	path := f.Path() + "." + name
	if f.path == nil || strings.HasPrefix(name, "[") {
		path = f.Path() + name
	}
	f.recorder.recordPruned(path, "", nil)
}
