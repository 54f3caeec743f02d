// Package fieldpath reads and writes the two notations of a place in an object: paths of field errors, such as
// spec.containers[0].image, and JSON pointers (RFC 6901), such as /spec/containers/0/image.
//
// A step is the name of a field, the index of an item, or the key of a map. Its notation depends only on its
// text: in a path, a step that no Go field could have is in brackets. [ApplyPatch] applies patches with such pointers.
package fieldpath

import (
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Name, Labels and Annotations are the paths of the metadata of an object.
var (
	Name        = field.NewPath("metadata", "name")
	Labels      = field.NewPath("metadata", "labels")
	Annotations = field.NewPath("metadata", "annotations")
)

// fieldName matches steps without brackets.
var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Child returns the path of a step below a path. The path is empty for the root.
func Child(path, step string) string {
	switch {
	case !fieldName.MatchString(step):
		return path + "[" + step + "]"
	case path == "":
		return step
	}
	return path + "." + step
}

// Item returns the path of an item of a list.
func Item(path string, index int) string { return Child(path, strconv.Itoa(index)) }

// Split returns the steps of a path. Dots within brackets are part of a step.
func Split(path string) []string {
	inBrackets := false
	return strings.FieldsFunc(path, func(r rune) bool {
		if r == '[' || r == ']' {
			inBrackets = r == '['
			return true
		}
		return r == '.' && !inBrackets
	})
}

var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901, section 3
	pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// EscapeToken returns a step as a token of a JSON pointer.
func EscapeToken(step string) string { return pointerEscaper.Replace(step) }

// Pointer returns the JSON pointer of steps.
func Pointer(steps ...string) string {
	var pointer strings.Builder
	for _, step := range steps {
		pointer.WriteString("/" + EscapeToken(step))
	}
	return pointer.String()
}

// SplitPointer returns the steps of a JSON pointer. The pointer of the root has none.
func SplitPointer(pointer string) []string {
	if pointer == "" {
		return nil
	}
	steps := strings.Split(pointer[1:], "/")
	for i := range steps {
		steps[i] = pointerUnescaper.Replace(steps[i])
	}
	return steps
}

// FromPointer returns the path of a JSON pointer.
func FromPointer(pointer string) string {
	path := ""
	for _, step := range SplitPointer(pointer) {
		path = Child(path, step)
	}
	return path
}
