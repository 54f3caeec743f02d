package detach

import (
	"fmt"
	"strings"
)

// String returns the result in one line, followed by one indented line for each note.
func (r Result) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s/%s %s", r.Namespace, r.Kind.ObjectName(r.Name), r.Outcome)
	if r.Err != nil {
		fmt.Fprintf(&out, ": %v", r.Err)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "\n  %s", note)
	}
	return out.String()
}
