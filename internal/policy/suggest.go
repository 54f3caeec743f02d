package policy

import (
	"reflect"
	"slices"
	"strings"

	"rollcall.training/gang"
)

// suggestField returns "; did you mean …?" for a misspelled field, or an empty string.
func suggestField(path string) string {
	name := path[strings.LastIndex(path, ".")+1:]
	return gang.SuggestMatch(name, listFields(reflect.TypeFor[File]()))
}

// listFields returns the names of all fields of a type of this package, and of the types of its fields.
func listFields(t reflect.Type) []string {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[File]().PkgPath() {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
		names = append(names, listFields(field.Type)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
