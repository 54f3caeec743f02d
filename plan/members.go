package plan

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// member is one field of an API type as JSON shows it.
type member struct {
	index int
	name  string
	// inline is true when the field's own members stand in its place.
	inline bool
	// omit is true when the zero value is left out.
	omit bool
	// scalar is true when two values can be compared as they are.
	scalar bool
}

var memberCache sync.Map // of reflect.Type to []member

// membersOf lists the fields of a struct type that JSON shows. API types name
// each field in its tag; a field without a name is embedded.
func membersOf(t reflect.Type) []member {
	if known, ok := memberCache.Load(t); ok {
		return known.([]member)
	}
	var out []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		out = append(out, member{index: i, name: name, inline: name == "", omit: strings.Contains(options, "omit"), scalar: isScalar(f.Type)})
	}
	memberCache.Store(t, out)
	return out
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return true
	default:
		return false
	}
}

var marshaler = reflect.TypeFor[json.Marshaler]()

var plainCache sync.Map // of reflect.Type to bool

// plain tells structs whose members JSON shows from values that encode themselves,
// such as quantities and times.
func plain(v reflect.Value) bool {
	if v.Kind() != reflect.Struct {
		return false
	}
	t := v.Type()
	if known, ok := plainCache.Load(t); ok {
		return known.(bool)
	}
	is := !t.Implements(marshaler) && !reflect.PointerTo(t).Implements(marshaler)
	plainCache.Store(t, is)
	return is
}
