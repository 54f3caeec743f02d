package source

import (
	"encoding/json"
	"maps"
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
		f.recordUnknownField(u, reflect.TypeOf(to))
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
func (f Field) recordUnknownField(err error, in reflect.Type) {
	name := err.Error()
	if _, quoted, ok := strings.Cut(name, `"`); ok {
		name = strings.TrimSuffix(quoted, `"`)
	}
	path := f.Path() + "." + name
	if f.path == nil || strings.HasPrefix(name, "[") {
		path = f.Path() + name
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	f.recorder.recordPruned(path, last, listSiblings(in, strings.TrimSuffix(name, last)))
}

// listSiblings returns the names of the fields of the object at a path in a Kubernetes type.
func listSiblings(t reflect.Type, path string) []string {
	steps := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	for {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
			t = t.Elem()
			steps = steps[min(1, len(steps)):] // the index or the key
		case t.Kind() != reflect.Struct:
			return nil
		case len(steps) == 0:
			return slices.Sorted(maps.Keys(listFields(t)))
		default:
			next, ok := listFields(t)[steps[0]]
			if !ok {
				return nil
			}
			t, steps = next, steps[1:]
		}
	}
}

// listFields returns the types of the fields of a struct by their JSON names, including inlined fields.
func listFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct {
			maps.Copy(out, listFields(field.Type))
		} else if name != "" {
			out[name] = field.Type
		}
	}
	return out
}
