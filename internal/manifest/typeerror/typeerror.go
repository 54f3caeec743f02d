package typeerror

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	kjson "sigs.k8s.io/json"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
)

// Mismatch is a value that does not match its type.
type Mismatch struct {
	// Path is the path of the value, such as spec.containers[0].image.
	Path string
	// Message describes the value and the required type.
	Message string
	// Fix is an instruction. It is empty if the message is sufficient.
	Fix string
}

// Decode decodes a JSON text into a Kubernetes type with the rules of the API server. unknown are the paths of the
// fields that the type does not have. The error is a [json.UnmarshalTypeError] if a value has the wrong type.
func Decode(text []byte, into any) (unknown []string, err error) {
	strictErrs, err := kjson.UnmarshalStrict(text, into, kjson.DisallowUnknownFields)
	if err != nil {
		// The errors of kjson have no exported type, so the error of encoding/json is preferred.
		discarded := reflect.New(reflect.TypeOf(into).Elem()).Interface()
		return nil, cmp.Or(json.Unmarshal(text, discarded), err)
	}
	for _, strictErr := range strictErrs {
		//nolint:errorlint // kjson returns its errors without wrapping them
		if fieldErr, ok := strictErr.(kjson.FieldError); ok {
			unknown = append(unknown, fieldErr.FieldPath())
		}
	}
	return unknown, nil
}

// Explain returns the values because of which a JSON text could not be decoded to a Kubernetes type.
// err is the error of [Decode]. The result is empty if the error has no position and all
// quantities are valid.
func Explain(text []byte, err error) []Mismatch {
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return nil
	}
	mismatches := findInvalidQuantities("", "", tree)
	var typeErr *json.UnmarshalTypeError
	if !errors.As(err, &typeErr) {
		return mismatches
	}
	got, want := jsonTypeName(typeErr.Value), goTypeName(typeErr)
	mismatch := Mismatch{
		Path:    PathAtOffset(text, typeErr.Offset),
		Message: fmt.Sprintf("must be of type %s, not %s", want, got),
	}
	if want == "string" && (got == "number" || got == "boolean") {
		mismatch.Fix = "put the value in quotes"
	}
	return append(mismatches, mismatch)
}

// findInvalidQuantities returns the strings in fields for quantities that are not quantities. The type
// Quantity decodes itself, and its errors have no position. parent is the key of the value.
func findInvalidQuantities(path, parent string, value any) []Mismatch {
	var mismatches []Mismatch
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			childPath := fieldpath.Child(path, key)
			text, isString := value[key].(string)
			isQuantity := parent == "limits" || parent == "requests" || key == "sizeLimit"
			if _, err := gang.ParseQuantity(text); isString && isQuantity && err != nil {
				mismatches = append(mismatches, Mismatch{
					Path:    childPath,
					Message: fmt.Sprintf("%q is not a quantity", text),
					Fix:     "use a number with an optional suffix: m, k, M, G, T, Ki, Mi, Gi or Ti",
				})
			}
			mismatches = append(mismatches, findInvalidQuantities(childPath, key, value[key])...)
		}
	case []any:
		for i, item := range value {
			mismatches = append(mismatches, findInvalidQuantities(fieldpath.Item(path, i), "", item)...)
		}
	}
	return mismatches
}

// jsonTypeName returns the name of a JSON type in the terms of YAML. The value is that of a
// [json.UnmarshalTypeError], which contains the digits of a number after the type.
func jsonTypeName(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind {
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

// goTypeName returns the name of the required Go type in the terms of YAML.
func goTypeName(err *json.UnmarshalTypeError) string {
	switch kind := err.Type.Kind().String(); kind {
	case "int", "int32", "int64", "uint16", "uint32":
		return "integer"
	case "slice":
		return "list"
	case "map", "struct":
		return "mapping"
	case "bool":
		return "boolean"
	default:
		return kind
	}
}

// PathAtOffset returns the path of the value at a byte offset of a JSON text: the first value that
// ends at or after the offset, or whose opening bracket does. The offset is that of a
// [json.UnmarshalTypeError], whose own path does not contain the indexes of list items. If the offset
// is beyond the text, the path is empty.
func PathAtOffset(text []byte, offset int64) string {
	return findPath(gjson.ParseBytes(text), "", int(offset))
}

// findPath returns the path of the value at an offset within a value that has the given path.
func findPath(v gjson.Result, path string, offset int) string {
	if v.Type != gjson.JSON || v.Index+1 >= offset { // the offset follows the opening bracket
		return path
	}
	item := -1
	v.ForEach(func(key, child gjson.Result) bool {
		item++
		switch {
		case child.Index+len(child.Raw) < offset:
			return true
		case v.IsArray():
			path = findPath(child, fieldpath.Item(path, item), offset)
		case key.Index+len(key.Raw) < offset: // otherwise, the offset follows the opening brace
			path = findPath(child, fieldpath.Child(path, key.String()), offset)
		}
		return false
	})
	return path
}
