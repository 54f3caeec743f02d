package injection

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/internal/fieldpath"
)

// Diff returns the JSON patch that changes original to after. The object before must be decoded from
// original, and has the same type as after.
//
// The patch keeps fields of original that are unknown to the Go types, such as fields of a newer
// Kubernetes release. Therefore Diff compares elements of lists by name. By position, an insertion at
// the front would combine the values of one element with the unknown fields of another
// (docs/adr/0001). Diff reads original only to determine whether a parent object exists that is empty
// in the Go types.
//
// Diff compares the Go values and encodes only the differences. The values of the operations belong to after, so
// encode the patch before after changes.
func Diff(original []byte, before, after runtime.Object) []jsonpatch.Operation {
	d := differ{
		original: original,
		values:   map[string]originalValue{},
		path:     make([]step, 0, maxUsualDepth),
		ops:      make([]jsonpatch.Operation, 0, usualOperations),
	}
	d.diffStructs(reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	return d.ops
}

// EncodePatch returns the JSON encoding of a patch. The method of [jsonpatch.Operation] encodes each operation
// on its own, and the encoder then copies the text. A value must not be nil.
func EncodePatch(ops []jsonpatch.Operation) ([]byte, error) {
	type operation jsonpatch.Operation // without the method
	operations := make([]operation, len(ops))
	for i, op := range ops {
		operations[i] = operation(op)
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return text, nil
}

// Sizes of the patch of a usual injection, for which memory is reserved.
const (
	maxUsualDepth   = 8
	usualOperations = 32
)

type differ struct {
	original []byte
	// path leads to the values that are compared. Few of them differ, so the path is encoded only for
	// operations.
	path []step
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

// step is a reference token of a JSON pointer: a field, or an element of a list.
type step struct {
	field     string
	isElement bool
	// The index of an element in the patched list and in the original text. Indexes differ after an
	// element was added or removed.
	patched, original int
}

// enterField and enterElement extend the path, and leave removes its last step.
func (d *differ) enterField(name string) { d.path = append(d.path, step{field: name}) }

func (d *differ) enterElement(patched, original int) {
	d.path = append(d.path, step{isElement: true, patched: patched, original: original})
}

func (d *differ) leave() { d.path = d.path[:len(d.path)-1] }

// encodePath returns the JSON pointer of the path in the patched object.
func (d *differ) encodePath() string {
	return encodePointer(d.path, func(s step) int { return s.patched })
}

// encodeOriginalPath returns the JSON pointer of the path in the original text.
func (d *differ) encodeOriginalPath() string {
	return encodePointer(d.path, func(s step) int { return s.original })
}

func encodePointer(path []step, index func(step) int) string {
	var buffer [128]byte // usually sufficient, so that only the result is allocated
	pointer := buffer[:0]
	for _, s := range path {
		pointer = append(pointer, '/')
		if s.isElement {
			pointer = strconv.AppendInt(pointer, int64(index(s)), 10)
		} else {
			pointer = append(pointer, fieldpath.EscapeToken(s.field)...)
		}
	}
	return string(pointer)
}

// emitAdd sets a value. In an object, add replaces an existing value (RFC 6902, section 4.1). In a
// list, add inserts an element.
func (d *differ) emitAdd(v reflect.Value) {
	if v.CanAddr() {
		v = v.Addr() // has the same encoding, and costs no copy
	}
	d.ops = append(d.ops, jsonpatch.NewOperation("add", d.encodePath(), v.Interface()))
}

func (d *differ) emitRemove() {
	d.ops = append(d.ops, jsonpatch.NewOperation("remove", d.encodePath(), nil))
}

// existsInOriginal reports whether the original text has a value at a JSON pointer.
func (d *differ) existsInOriginal(pointer string) bool {
	value := d.findOriginal(pointer)
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
		if !parent.IsArray() {
			value.Result = parent.Get(token)
		} else if index, err := strconv.Atoi(token); err == nil && index < len(parent.elements) {
			value.Result = parent.elements[index]
		}
	}
	if value.IsArray() {
		value.elements = value.Array()
	}
	d.values[pointer] = value
	return value
}

// diffStructs compares two structs by their JSON fields.
func (d *differ) diffStructs(before, after reflect.Value) {
	for _, f := range jsonFieldsOf(before.Type()) {
		fieldBefore, fieldAfter := before.Field(f.index), after.Field(f.index)
		if f.scalar && fieldBefore.Equal(fieldAfter) {
			continue // the common case
		}
		if f.inline {
			d.diffStructs(fieldBefore, fieldAfter)
			continue
		}
		d.enterField(f.name)
		if !fieldAfter.IsZero() || !f.omitZero {
			d.diffValues(fieldBefore, fieldAfter)
		} else if !fieldBefore.IsZero() {
			d.emitRemove()
		}
		d.leave()
	}
}

// diffValues compares the values of a field.
func (d *differ) diffValues(before, after reflect.Value) {
	if before.Kind() == reflect.Pointer && !before.IsNil() && !after.IsNil() {
		before, after = before.Elem(), after.Elem()
	}
	switch {
	case isPlainStruct(before):
		if before.IsZero() && !after.IsZero() && !d.existsInOriginal(d.encodeOriginalPath()) {
			d.emitAdd(after)
			return
		}
		d.diffStructs(before, after)
	case before.Kind() == reflect.Map && before.Len() > 0 && after.Len() > 0:
		d.diffMaps(before, after)
	case before.Kind() == reflect.Slice && before.Len() > 0 && after.Len() > 0:
		d.diffLists(before, after)
	case !equalValues(before, after):
		d.emitAdd(after)
	}
}

func equalValues(a, b reflect.Value) bool {
	if a.Comparable() && a.Kind() != reflect.Pointer && a.Equal(b) {
		return true
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func (d *differ) diffMaps(before, after reflect.Value) {
	for _, k := range sortedMapKeys(before) {
		if !after.MapIndex(k).IsValid() {
			d.enterField(k.String())
			d.emitRemove()
			d.leave()
		}
	}
	for _, k := range sortedMapKeys(after) {
		if v := before.MapIndex(k); !v.IsValid() || !equalValues(v, after.MapIndex(k)) {
			d.enterField(k.String())
			d.emitAdd(after.MapIndex(k))
			d.leave()
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
func (d *differ) diffLists(before, after reflect.Value) {
	if isPrefix(before, after) { // the common case
		for i := range after.Len() {
			d.enterElement(i, i)
			if i < before.Len() {
				d.diffElement(before.Index(i), after.Index(i))
			} else {
				d.emitAdd(after.Index(i))
			}
			d.leave()
		}
		return
	}
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
		d.removeElement(i)
	}
	slices.Reverse(current)
	for i, key := range keysAfter {
		if i < len(current) && current[i].key == key {
			originalIndex := current[i].originalIndex
			d.enterElement(i, originalIndex)
			d.diffElement(before.Index(originalIndex), after.Index(i))
			d.leave()
			continue
		}
		moved := slices.IndexFunc(current, func(e element) bool { return e.key == key })
		if moved >= 0 {
			d.removeElement(moved)
			current = slices.Delete(current, moved, moved+1)
		}
		d.enterElement(i, i)
		d.emitAdd(after.Index(i))
		d.leave()
		current = slices.Insert(current, i, element{key, -1})
	}
}

func (d *differ) removeElement(index int) {
	d.enterElement(index, index)
	d.emitRemove()
	d.leave()
}

func (d *differ) diffElement(before, after reflect.Value) {
	switch {
	case isPlainStruct(before):
		d.diffStructs(before, after)
	case !equalValues(before, after):
		d.ops = append(d.ops, jsonpatch.NewOperation("replace", d.encodePath(), after.Interface()))
	}
}

// isPrefix reports whether a list starts with the elements of another, according to their names.
func isPrefix(before, after reflect.Value) bool {
	nameField := nameFieldOf(before.Type().Elem())
	if nameField == nil || before.Len() > after.Len() {
		return false
	}
	for i := range before.Len() {
		if before.Index(i).FieldByIndex(nameField).String() != after.Index(i).FieldByIndex(nameField).String() {
			return false
		}
	}
	return true
}

// nameFieldOf returns the index of the field Name; nil if a type has none.
func nameFieldOf(t reflect.Type) []int {
	if t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName("Name"); ok {
			return f.Index
		}
	}
	return nil
}

// elementKeys returns a unique key for each element of a list: the name, if any, and the number of
// earlier elements with the same name.
func elementKeys(list reflect.Value) []string {
	seen := make(map[string]int, list.Len())
	keys := make([]string, list.Len())
	nameField := nameFieldOf(list.Type().Elem())
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
