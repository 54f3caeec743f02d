package gang

import (
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Denial is a mistake of the user together with its remedy.
type Denial struct {
	*field.Error
	// Fix is the remedy that the message names. It has no operations if only the user can choose among
	// several remedies.
	Fix Fix
}

// Fix is a remedy as a JSON patch (RFC 6902) of the workload. Each patch is valid for the denied
// workload, and resolves only its own denial.
type Fix []jsonpatch.Operation

// Denials are the mistakes in one workload.
type Denials []Denial

// ErrorList returns the mistakes without their remedies.
func (ds Denials) ErrorList() field.ErrorList {
	var errs field.ErrorList
	for _, d := range ds {
		errs = append(errs, d.Error)
	}
	return errs
}

// newDenials returns the mistakes without remedies.
func newDenials(errs field.ErrorList) Denials {
	var ds Denials
	for _, err := range errs {
		ds = append(ds, Denial{Error: err})
	}
	return ds
}

// NewRemoveFix returns the fix that removes a field.
func NewRemoveFix(path *field.Path) Fix {
	return Fix{jsonpatch.NewOperation("remove", jsonPointer(path), nil)}
}

// NewSetFix returns the fix that sets a field, whose parent must exist.
func NewSetFix(path *field.Path, value any) Fix {
	return Fix{jsonpatch.NewOperation("add", jsonPointer(path), value)}
}

// NewAnnotationFix returns the fix that sets an annotation of the workload.
func NewAnnotationFix(w Workload, name, value string) Fix {
	if w.Meta().Annotations == nil {
		return NewSetFix(annotationsPath, map[string]string{name: value})
	}
	return NewSetFix(annotationsPath.Key(name), value)
}

// jsonPointer returns the JSON pointer (RFC 6901) of a path.
func jsonPointer(path *field.Path) string {
	var pointer strings.Builder
	for token := range strings.FieldsFuncSeq(path.String(), newPathSplitter()) {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return pointer.String()
}

// newPathSplitter returns a function that reports the separators of a path: dots and brackets. Dots
// within brackets are part of a key.
func newPathSplitter() func(rune) bool {
	inBrackets := false
	return func(r rune) bool {
		if r == '[' || r == ']' {
			inBrackets = r == '['
			return true
		}
		return r == '.' && !inBrackets
	}
}
