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

// Diff returns the JSON patch that brings raw, the text from which before was
// decoded, to after. What the text holds beyond our Go types, say a field newer
// than our k8s.io/api, stays where it is. That is why lists are compared by their
// elements' names; a comparison by position would, after an insertion at the
// front, move the values of one entry under the unknown fields of another
// (docs/adr/0003). The text itself is asked just one thing: whether a parent that
// is empty to our types is there to be added to.
//
// The work is that of comparing the two objects; only what differs is encoded.
func Diff(raw []byte, before, after runtime.Object) []jsonpatch.Operation {
	d := differ{raw: raw}
	d.structs(place{}, reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	return d.ops
}

type differ struct {
	raw []byte
	ops []jsonpatch.Operation
}

// place is where a value stands: in the patched object, whose lists may have grown
// by then, and in the text.
type place struct{ patched, text string }

func (p place) member(name string) place {
	name = "/" + escape(name)
	return place{p.patched + name, p.text + name}
}

func (p place) element(patched, text int) place {
	return place{p.patched + "/" + strconv.Itoa(patched), p.text + "/" + strconv.Itoa(text)}
}

// set gives an object's member a value. To a member, add means set, whether or
// not the text holds it (RFC 6902, section 4.1).
func (d *differ) set(p place, v reflect.Value) {
	d.ops = append(d.ops, jsonpatch.NewOperation("add", p.patched, v.Interface()))
}

func (d *differ) remove(p place) {
	d.ops = append(d.ops, jsonpatch.NewOperation("remove", p.patched, nil))
}

// has reports whether the text holds something at the path of a struct.
func (d *differ) has(p place) bool {
	v := gjson.GetBytes(d.raw, strings.ReplaceAll(strings.TrimPrefix(p.text, "/"), "/", "."))
	return v.Exists() && v.Type != gjson.Null
}

// structs compares two structs field by field, each under its name in JSON.
func (d *differ) structs(p place, a, b reflect.Value) {
	for _, f := range membersOf(a.Type()) {
		fa, fb := a.Field(f.index), b.Field(f.index)
		if f.scalar && fa.Equal(fb) {
			continue // most are; a path is made only for what may differ
		}
		if f.inline {
			d.structs(p, fa, fb)
			continue
		}
		if fb.IsZero() && f.omit {
			if !fa.IsZero() {
				d.remove(p.member(f.name))
			}
			continue
		}
		d.values(p.member(f.name), fa, fb)
	}
}

// values compares the values of one member.
func (d *differ) values(p place, a, b reflect.Value) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	switch {
	case plain(a):
		if a.IsZero() && !b.IsZero() && !d.has(p) {
			d.set(p, b)
			return
		}
		d.structs(p, a, b)
	case a.Kind() == reflect.Map && a.Len() > 0 && b.Len() > 0:
		d.maps(p, a, b)
	case a.Kind() == reflect.Slice && a.Len() > 0 && b.Len() > 0:
		d.lists(p, a, b)
	case !same(a, b):
		d.set(p, b)
	}
}

func same(a, b reflect.Value) bool {
	if a.Comparable() && a.Kind() != reflect.Pointer && a.Equal(b) {
		return true
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func (d *differ) maps(p place, a, b reflect.Value) {
	for _, k := range sortedMapKeys(a) {
		if !b.MapIndex(k).IsValid() {
			d.remove(p.member(k.String()))
		}
	}
	for _, k := range sortedMapKeys(b) {
		if v := a.MapIndex(k); !v.IsValid() || !same(v, b.MapIndex(k)) {
			d.set(p.member(k.String()), b.MapIndex(k))
		}
	}
}

func sortedMapKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// lists removes what is gone, from the end so that indexes stay true, and then
// walks along the new list, adding what is missing where it stands. An element
// that stands further behind than it should is taken out and put in anew; the
// applier does that to variables of ours alone.
func (d *differ) lists(p place, a, b reflect.Value) {
	want := elementKeys(b)
	wanted := make(map[string]bool, len(want))
	for _, k := range want {
		wanted[k] = true
	}
	type element struct {
		key  string
		text int // where it stands in the text
	}
	var now []element
	keys := elementKeys(a)
	for i := len(keys) - 1; i >= 0; i-- {
		if wanted[keys[i]] {
			now = append(now, element{keys[i], i})
			continue
		}
		d.remove(p.element(i, i))
	}
	slices.Reverse(now)
	for j, key := range want {
		if j < len(now) && now[j].key == key {
			d.element(p.element(j, now[j].text), a.Index(now[j].text), b.Index(j))
			continue
		}
		moved := slices.IndexFunc(now, func(e element) bool { return e.key == key })
		if moved >= 0 {
			d.remove(p.element(moved, moved))
			now = slices.Delete(now, moved, moved+1)
		}
		d.set(p.element(j, j), b.Index(j)) // to a list, add means insert
		now = slices.Insert(now, j, element{key, -1})
	}
}

func (d *differ) element(p place, a, b reflect.Value) {
	switch {
	case plain(a):
		d.structs(p, a, b)
	case !same(a, b):
		d.ops = append(d.ops, jsonpatch.NewOperation("replace", p.patched, b.Interface()))
	}
}

// elementKeys names a list's elements: by their name, and where that is absent or
// stands several times, by its occurrence too.
func elementKeys(list reflect.Value) []string {
	seen := make(map[string]int, list.Len())
	keys := make([]string, list.Len())
	var field []int
	if t := list.Type().Elem(); t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName("Name"); ok {
			field = f.Index
		}
	}
	for i := range keys {
		name := ""
		if field != nil {
			name = list.Index(i).FieldByIndex(field).String()
		}
		keys[i] = name
		if n := seen[name]; n > 0 {
			keys[i] = name + "\x00" + strconv.Itoa(n)
		}
		seen[name]++
	}
	return keys
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901, section 3

func escape(token string) string { return pointerEscapes.Replace(token) }
