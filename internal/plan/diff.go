package plan

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Diff returns the JSON patch that changes original to after. The object before must be decoded from
// original, and has the same type as after.
//
// The patch keeps fields of original that are unknown to the Go types, such as fields of a newer
// Kubernetes release. Therefore Diff compares elements of lists by name. By position, an insertion at
// the front would combine the values of one element with the unknown fields of another
// (docs/adr/0003). Diff reads original only to determine whether a parent object exists that is empty
// in the Go types.
//
// Diff compares the Go values and encodes only the differences.
func Diff(original []byte, before, after runtime.Object) []jsonpatch.Operation {
	d := differ{original: original, values: map[string]originalValue{}}
	d.diffStructs(location{}, reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	return d.ops
}

type differ struct {
	original []byte
	// values contains the values of original that were looked up, by JSON pointer. Each lookup searches
	// only the parent, so that the original text is not searched once for each container.
	values map[string]originalValue
	ops    []jsonpatch.Operation
}

// originalValue is a value of the original text. The elements of a list are decoded once.
type originalValue struct {
	gjson.Result
	elements []gjson.Result
}

// location is the JSON pointer of a value in the patched object and in the original text. Indexes
// differ after an element was added or removed.
type location struct{ patched, original string }

func (at location) childField(name string) location {
	name = "/" + escapePointerToken(name)
	return location{at.patched + name, at.original + name}
}

func (at location) listElement(patched, original int) location {
	return location{at.patched + "/" + strconv.Itoa(patched), at.original + "/" + strconv.Itoa(original)}
}

// emitAdd sets a value. In an object, add replaces an existing value (RFC 6902, section 4.1). In a
// list, add inserts an element.
func (d *differ) emitAdd(at location, v reflect.Value) {
	d.ops = append(d.ops, jsonpatch.NewOperation("add", at.patched, v.Interface()))
}

func (d *differ) emitRemove(at location) {
	d.ops = append(d.ops, jsonpatch.NewOperation("remove", at.patched, nil))
}

// existsInOriginal reports whether the original text has a value at the location of a struct.
func (d *differ) existsInOriginal(at location) bool {
	value := d.findOriginal(at.original)
	return value.Exists() && value.Type != gjson.Null
}

// findOriginal returns the value at a JSON pointer in the original text.
func (d *differ) findOriginal(pointer string) originalValue {
	if value, ok := d.values[pointer]; ok {
		return value
	}
	var value originalValue
	if i := strings.LastIndexByte(pointer, '/'); i < 0 {
		value.Result = gjson.ParseBytes(d.original)
	} else {
		parent, token := d.findOriginal(pointer[:i]), pointer[i+1:]
		if index, err := strconv.Atoi(token); err == nil && index < len(parent.elements) {
			value.Result = parent.elements[index]
		} else {
			value.Result = parent.Get(token)
		}
	}
	if value.IsArray() {
		value.elements = value.Array()
	}
	d.values[pointer] = value
	return value
}

// diffStructs compares two structs by their JSON fields.
func (d *differ) diffStructs(at location, before, after reflect.Value) {
	for _, f := range jsonFieldsOf(before.Type()) {
		fieldBefore, fieldAfter := before.Field(f.index), after.Field(f.index)
		if f.scalar && fieldBefore.Equal(fieldAfter) {
			continue // the common case, without the cost of a location
		}
		if f.inline {
			d.diffStructs(at, fieldBefore, fieldAfter)
			continue
		}
		if fieldAfter.IsZero() && f.omitZero {
			if !fieldBefore.IsZero() {
				d.emitRemove(at.childField(f.name))
			}
			continue
		}
		d.diffValues(at.childField(f.name), fieldBefore, fieldAfter)
	}
}

// diffValues compares the values of a field.
func (d *differ) diffValues(at location, before, after reflect.Value) {
	if before.Kind() == reflect.Pointer && !before.IsNil() && !after.IsNil() {
		before, after = before.Elem(), after.Elem()
	}
	switch {
	case isPlainStruct(before):
		if before.IsZero() && !after.IsZero() && !d.existsInOriginal(at) {
			d.emitAdd(at, after)
			return
		}
		d.diffStructs(at, before, after)
	case before.Kind() == reflect.Map && before.Len() > 0 && after.Len() > 0:
		d.diffMaps(at, before, after)
	case before.Kind() == reflect.Slice && before.Len() > 0 && after.Len() > 0:
		d.diffLists(at, before, after)
	case !equalValues(before, after):
		d.emitAdd(at, after)
	}
}

func equalValues(a, b reflect.Value) bool {
	if a.Comparable() && a.Kind() != reflect.Pointer && a.Equal(b) {
		return true
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func (d *differ) diffMaps(at location, before, after reflect.Value) {
	for _, k := range sortedMapKeys(before) {
		if !after.MapIndex(k).IsValid() {
			d.emitRemove(at.childField(k.String()))
		}
	}
	for _, k := range sortedMapKeys(after) {
		if v := before.MapIndex(k); !v.IsValid() || !equalValues(v, after.MapIndex(k)) {
			d.emitAdd(at.childField(k.String()), after.MapIndex(k))
		}
	}
}

func sortedMapKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// diffLists removes elements that are not in after, from the end so that indexes stay valid. Then it
// walks over after and inserts missing elements. An element that comes later than in after is removed
// and inserted again. The applier moves only variables of Rollcall.
func (d *differ) diffLists(at location, before, after reflect.Value) {
	keysAfter := elementKeys(after)
	inAfter := make(map[string]bool, len(keysAfter))
	for _, key := range keysAfter {
		inAfter[key] = true
	}
	type element struct {
		key           string
		originalIndex int
	}
	var current []element // the list after the operations so far
	keysBefore := elementKeys(before)
	for i := len(keysBefore) - 1; i >= 0; i-- {
		if inAfter[keysBefore[i]] {
			current = append(current, element{keysBefore[i], i})
			continue
		}
		d.emitRemove(at.listElement(i, i))
	}
	slices.Reverse(current)
	for i, key := range keysAfter {
		if i < len(current) && current[i].key == key {
			originalIndex := current[i].originalIndex
			d.diffElement(at.listElement(i, originalIndex), before.Index(originalIndex), after.Index(i))
			continue
		}
		moved := slices.IndexFunc(current, func(e element) bool { return e.key == key })
		if moved >= 0 {
			d.emitRemove(at.listElement(moved, moved))
			current = slices.Delete(current, moved, moved+1)
		}
		d.emitAdd(at.listElement(i, i), after.Index(i))
		current = slices.Insert(current, i, element{key, -1})
	}
}

func (d *differ) diffElement(at location, before, after reflect.Value) {
	switch {
	case isPlainStruct(before):
		d.diffStructs(at, before, after)
	case !equalValues(before, after):
		d.ops = append(d.ops, jsonpatch.NewOperation("replace", at.patched, after.Interface()))
	}
}

// elementKeys returns a unique key for each element of a list: the name, if any, and the number of
// earlier elements with the same name.
func elementKeys(list reflect.Value) []string {
	seen := make(map[string]int, list.Len())
	keys := make([]string, list.Len())
	var nameField []int
	if t := list.Type().Elem(); t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName("Name"); ok {
			nameField = f.Index
		}
	}
	for i := range keys {
		name := ""
		if nameField != nil {
			name = list.Index(i).FieldByIndex(nameField).String()
		}
		keys[i] = name
		if count := seen[name]; count > 0 {
			keys[i] = name + "\x00" + strconv.Itoa(count)
		}
		seen[name]++
	}
	return keys
}

var jsonPointerEscaper = strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901, section 3

func escapePointerToken(token string) string { return jsonPointerEscaper.Replace(token) }
