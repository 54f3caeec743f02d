package gang

import "k8s.io/apimachinery/pkg/util/validation/field"

// Warning is a remark about a workload that does not prevent its admission: a setting has no
// effect, or is probably a mistake.
type Warning struct {
	// Path is the path of the field, as in field.Error; empty if the warning is about the workload.
	Path string
	// Message describes the problem and the fix.
	Message string
}

// NewWarning returns a warning about a field.
func NewWarning(path *field.Path, message string) Warning {
	return Warning{Path: path.String(), Message: message}
}

// String returns "path: message", the form that users see.
func (w Warning) String() string {
	if w.Path == "" {
		return w.Message
	}
	return w.Path + ": " + w.Message
}

// Warnings are the warnings about one workload in the order in which its fields were checked.
type Warnings []Warning

// Strings returns one line of at most 1024 bytes for each warning; nil if there are no warnings.
func (ws Warnings) Strings() []string {
	var lines []string
	for _, w := range ws {
		lines = append(lines, ShortenText(w.String()))
	}
	return lines
}
