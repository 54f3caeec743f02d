// Package misfit says where a text does not fit a Go type.
//
// # The idea
//
// A decoder stops at the first value of another type than its Go type has, and names it by
// a path of Go's names, or an offset. Users know neither: [Of] turns the error into the
// path that they write, what stands there and what has to.
package misfit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Misfit is a value that its type cannot hold.
type Misfit struct {
	// Path is where it stands in the text, such as spec.containers[0].image.
	Path string
	// Message says what it is and has to be, and Fix what to do; empty where that is plain.
	Message, Fix string
}

// Of explains why a text, which is JSON, could not be decoded into a Kubernetes type. The
// error is that of encoding/json; nothing comes of one that says no place.
func Of(text []byte, err error) []Misfit {
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return nil
	}
	out := quantities("", "", tree)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return out
	}
	have, want := jsonType(wrong.Value), goType(wrong)
	m := Misfit{Path: FieldAt(text, wrong.Offset), Message: fmt.Sprintf("it is a %s, and has to be a %s", have, want)}
	if want == "string" && (have == "number" || have == "boolean") {
		m.Fix = "put it in quotes"
	}
	return append(out, m)
}

// quantities finds what cannot be read as a quantity where one has to be: their type says
// so itself, without a place.
func quantities(path, parent string, v any) []Misfit {
	var out []Misfit
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if strings.ContainsAny(key, "./[]") {
				at = path + "[" + key + "]"
			}
			text, isText := v[key].(string)
			isQuantity := parent == "limits" || parent == "requests" || key == "sizeLimit"
			if _, err := resource.ParseQuantity(text); isText && isQuantity && err != nil {
				out = append(out, Misfit{at, fmt.Sprintf("%q is no quantity", text), "write a number with one of the endings m, k, M, G, T, Ki, Mi, Gi, Ti, or none"})
			}
			out = append(out, quantities(at, key, v[key])...)
		}
	case []any:
		for i, item := range v {
			out = append(out, quantities(fmt.Sprintf("%s[%d]", path, i), "", item)...)
		}
	}
	return out
}

// jsonType names a value as users of YAML do.
func jsonType(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind { // a number comes with its text
	case "array":
		return "list"
	case "object":
		return "mapping"
	case "bool":
		return "boolean"
	default:
		return kind
	}
}

// goType names a type as users of YAML do.
func goType(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind().String(); kind {
	case "int", "int32", "int64", "uint16", "uint32":
		return "whole number"
	case "slice":
		return "list"
	case "map", "struct":
		return "mapping"
	case "bool":
		return "boolean, true or false"
	default:
		return kind
	}
}
