package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warning is a remark about a workload that does not prevent its admission: a setting has no
// effect, or is probably a mistake.
type Warning struct {
	// Path is the path of the field, as in field.Error; empty if the warning is about the workload.
	Path string
	// Message describes the problem and the fix.
	Message string
	// Advice is true if the setting works as its author intends, and Rollcall only recommends another.
	// Admission does not print it.
	Advice bool
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

// Strings returns one line of at most 1024 bytes for each warning that is not advice; nil if there are
// no such warnings.
func (ws Warnings) Strings() []string {
	var lines []string
	for _, w := range ws {
		if !w.Advice {
			lines = append(lines, ShortenText(w.String()))
		}
	}
	return lines
}

// LimitWarnings returns at most [MaxErrors] warnings, and one that states how many warnings it leaves out. It does not
// change its argument.
func LimitWarnings(ws Warnings) Warnings {
	omitted := len(ws) - MaxErrors
	if omitted <= 0 {
		return ws
	}
	return append(ws[:MaxErrors:MaxErrors], Warning{Message: fmt.Sprintf("the list omits %d more warnings", omitted)})
}
