package injection

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// jsonField is the JSON encoding of a field of an API type.
type jsonField struct {
	index int
	name  string
	// inline is true if the fields of the value are encoded as fields of the parent.
	inline bool
	// omitZero is true if the zero value is omitted.
	omitZero bool
	// scalar is true if two values can be compared with ==.
	scalar bool
}

var jsonFieldCache sync.Map // of reflect.Type to []jsonField

var marshalerType = reflect.TypeFor[json.Marshaler]()

// jsonFieldsOf returns the encoded fields of a struct type; nil for a type with its own encoding, such as a quantity.
// API types have a name in the tag of each field, except for inline fields.
func jsonFieldsOf(t reflect.Type) []jsonField {
	if cached, ok := jsonFieldCache.Load(t); ok {
		return cached.([]jsonField)
	}
	fields := []jsonField{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		fields = append(fields, jsonField{
			index:    i,
			name:     name,
			inline:   name == "",
			omitZero: strings.Contains(options, "omit"),
			scalar:   isScalar(f.Type),
		})
	}
	if reflect.PointerTo(t).Implements(marshalerType) { // which has the methods of t, too
		fields = nil
	}
	jsonFieldCache.Store(t, fields)
	return fields
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return true
	default:
		return false
	}
}

// isPlainStruct reports whether a value is a struct that is encoded by its fields.
func isPlainStruct(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && jsonFieldsOf(v.Type()) != nil
}
