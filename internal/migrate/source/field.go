package source

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/internal/fieldpath"
)

// Field is a place in a manifest, with or without a value. Reading a Field without a value returns
// the zero value and records nothing, so readers need not check whether a field exists.
type Field struct {
	path     string
	value    any
	recorder *Recorder
}

// Path returns the path as users write it, or "" for the root.
func (f Field) Path() string { return f.path }

// Recorder returns the Recorder of the manifest.
func (f Field) Recorder() *Recorder { return f.recorder }

// Exists reports whether the manifest has a value here. An explicit null is not a value, as for the
// API server.
func (f Field) Exists() bool { return f.value != nil }

// Get returns the field of the given name.
func (f Field) Get(name string) Field {
	f.readObject()
	return f.childField(name)
}

// readObject returns the fields of an object. Another value is an error of the manifest.
func (f Field) readObject() map[string]any {
	f.markRead()
	m, ok := f.value.(map[string]any)
	if !ok && f.value != nil {
		f.reportWrongType("an object")
	}
	return m
}

// childField returns the field of the given name and does not mark f as read.
func (f Field) childField(name string) Field {
	child := Field{path: fieldpath.Child(f.path, name), recorder: f.recorder}
	if m, ok := f.value.(map[string]any); ok {
		child.value = m[name]
	}
	return child
}

// markRead records that a reader knows the field. Only empty values need it: all others are settled
// by the outcomes of the values in them.
func (f Field) markRead() {
	if f.isEmpty() {
		f.recorder.readPaths[f.Path()] = true
	}
}

// isEmpty reports whether the value is an empty string, or an object or a list of nulls only.
func (f Field) isEmpty() bool {
	switch v := f.value.(type) {
	case map[string]any, []any:
		return len(f.presentChildren()) == 0
	case string:
		return v == ""
	}
	return false
}

// At returns the field below f that the names lead to.
func (f Field) At(names ...string) Field {
	for _, name := range names {
		f = f.Get(name)
	}
	return f
}

// Keys returns the sorted names of the fields of an object, and nil for other values.
func (f Field) Keys() []string { return slices.Sorted(maps.Keys(f.readObject())) }

// Item returns the element of a list with the given index. It has no value if the list is shorter
// or f is not a list.
func (f Field) Item(index int) Field {
	child := Field{path: fieldpath.Item(f.path, index), recorder: f.recorder}
	if list, ok := f.value.([]any); ok && index >= 0 && index < len(list) {
		child.value = list[index]
	}
	return child
}

// Items returns the elements of a list, and nil for other values.
func (f Field) Items() []Field {
	f.markRead()
	if _, ok := f.value.([]any); !ok && f.value != nil {
		f.reportWrongType("a list")
	}
	return f.listItems()
}

// listItems returns the elements of a list and does not mark f as read.
func (f Field) listItems() []Field {
	list, ok := f.value.([]any)
	if !ok {
		return nil
	}
	out := make([]Field, len(list))
	for i, v := range list {
		out[i] = Field{path: fieldpath.Item(f.path, i), value: v, recorder: f.recorder}
	}
	return out
}

// presentChildren returns the fields directly below f that have a value.
func (f Field) presentChildren() []Field {
	out := f.listItems()
	if m, ok := f.value.(map[string]any); ok {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, f.childField(k))
		}
	}
	return slices.DeleteFunc(out, func(child Field) bool { return !child.Exists() })
}

// MarkPreserved records that the value, with all values below it, is in the result.
func (f Field) MarkPreserved(to string) { f.recordEntry(Entry{Outcome: Preserved, To: to}) }

// MarkChanged records that the value has another meaning in the result.
func (f Field) MarkChanged(to, reason, action string) {
	f.recordEntry(Entry{Outcome: Changed, To: to, Reason: reason, Action: action})
}

// MarkChangedInAllJobs is [Field.MarkChanged] for a change that applies to all jobs of the system.
func (f Field) MarkChangedInAllJobs(topic Topic, to, reason, action string) {
	f.recordEntry(Entry{Outcome: Changed, To: to, Reason: reason, Action: action, Topic: topic})
}

// MarkLeftOut records that the value is not in the result, and that it had no effect or needs none.
func (f Field) MarkLeftOut(reason string) { f.MarkChanged("", "left out: "+reason, "") }

// MarkDropped records that the value is not in the result.
func (f Field) MarkDropped(reason, action string) {
	f.recordEntry(Entry{Outcome: Dropped, Reason: reason, Action: action})
}

func (f Field) recordEntry(e Entry) {
	if f.Exists() {
		e.Path = f.Path()
		f.recorder.recordEntry(e)
	}
}

// AddNote records a change that does not settle the value: the values below still need an outcome.
func (f Field) AddNote(reason, action string) { f.AddNoteWithOutcome(Changed, "", reason, action) }

// AddNoteWithOutcome is [Field.AddNote] with any outcome.
func (f Field) AddNoteWithOutcome(o Outcome, to, reason, action string) {
	if f.Exists() {
		f.recorder.appendEntry(Entry{Path: f.Path(), Outcome: o, To: to, Reason: reason, Action: action})
	}
}

// AddNoteOnAllJobs is [Field.AddNote] for a change that applies to all jobs of the system.
func (f Field) AddNoteOnAllJobs(topic Topic, reason, action string) {
	if f.Exists() {
		f.recorder.appendEntry(Entry{Path: f.Path(), Outcome: Changed, Reason: reason, Action: action, Topic: topic})
	}
}

// MarkHandled settles a value without an entry: users did not write it, for example because the API
// server did, or other entries cover it.
func (f Field) MarkHandled() {
	if f.Exists() {
		f.recorder.accounted[f.Path()] = true
	}
}

// MarkInvalid adds an error about the value and settles it.
func (f Field) MarkInvalid(detail string) {
	f.MarkHandled()
	value := f.value
	switch value.(type) {
	case map[string]any, []any:
		value = field.OmitValueType{} // keeps the message on one line
	}
	f.recorder.AddError(field.Invalid(field.NewPath(f.path), value, detail))
}

// MarkRequired adds an error about a missing value.
func (f Field) MarkRequired(detail string) {
	f.recorder.AddError(field.Required(field.NewPath(f.path), detail))
}

// HasErrors reports whether an error was found anywhere in the manifest so far.
func (f Field) HasErrors() bool { return len(f.recorder.errors) > 0 }

// ReportUnreadExcept records each unread value below f as dropped, except below the known fields.
// Readers call it before they settle f with all values below it.
func (f Field) ReportUnreadExcept(known ...string) {
	for _, child := range f.presentChildren() {
		path := child.Path()
		if !slices.ContainsFunc(known, func(name string) bool { return path == f.childField(name).Path() }) {
			f.recorder.ReportUnread(child)
		}
	}
}

// DiscardEntries removes the entries of this value, so that the caller can record a better one.
func (f Field) DiscardEntries() {
	if !f.Exists() {
		return
	}
	path := f.Path()
	f.recorder.entries = slices.DeleteFunc(f.recorder.entries, func(e Entry) bool { return e.Path == path })
	delete(f.recorder.accounted, path)
}

// DeleteKey removes a field from the tree, so that later readers do not see it. The caller records
// its outcome before.
func (f Field) DeleteKey(name string) {
	if m, ok := f.value.(map[string]any); ok {
		delete(m, name)
	}
}

// String returns the string, or "" if there is none.
func (f Field) String() string {
	f.markRead()
	switch v := f.value.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		f.reportWrongType("a string")
		return ""
	}
}

// Bool returns the Boolean, or nil if there is none.
func (f Field) Bool() *bool {
	switch v := f.value.(type) {
	case nil:
	case bool:
		return &v
	default:
		f.reportWrongType("true or false")
	}
	return nil
}

// Int32 returns the whole number, or nil if there is none.
func (f Field) Int32() *int32 {
	v := f.Int64()
	if v == nil {
		return nil
	}
	if *v < math.MinInt32 || *v > math.MaxInt32 {
		f.MarkInvalid(fmt.Sprintf("must be from %d to %d", math.MinInt32, math.MaxInt32))
		return nil
	}
	small := int32(*v)
	return &small
}

// Int64 returns the whole number, or nil if there is none.
func (f Field) Int64() *int64 {
	switch v := f.value.(type) {
	case nil:
		return nil
	case int64:
		return &v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			whole := int64(v)
			return &whole
		}
	}
	f.reportWrongType("a whole number")
	return nil
}

// IntOrString returns the number or string as a string, or "" if there is none.
func (f Field) IntOrString() string {
	if _, ok := f.value.(string); ok || f.value == nil {
		return f.String()
	}
	if v := f.Int64(); v != nil {
		return strconv.FormatInt(*v, 10)
	}
	return ""
}

// StringMap returns an object of strings, or nil if there is none.
func (f Field) StringMap() map[string]string {
	var out map[string]string
	for _, k := range f.Keys() {
		if out == nil {
			out = map[string]string{}
		}
		out[k] = f.Get(k).String()
	}
	return out
}

// Strings returns a list of strings, or nil if there is none.
func (f Field) Strings() []string {
	var out []string
	for _, item := range f.Items() {
		out = append(out, item.String())
	}
	return out
}

func (f Field) reportWrongType(want string) {
	f.MarkHandled()
	err := field.TypeInvalid(field.NewPath(f.path), f.value, "must be "+want)
	isSame := func(have *field.Error) bool { return have.Field == err.Field && have.Detail == err.Detail }
	if !slices.ContainsFunc(f.recorder.errors, isSame) {
		f.recorder.AddError(err)
	}
}
