package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"

	"rollcall.training/gang"
)

// StatusVersion is the version of the JSON that [Status] writes. It rises when a field changes
// its meaning or is removed, never when one is added.
const StatusVersion = 1

// Status is the content of the annotation rollcall.training/status on each member of a gang. All
// fields but those of [Bookkeeping] are for users; docs/reference/status.md describes them.
type Status struct {
	// Version is [StatusVersion]. Encode sets it.
	Version int `json:"version"`
	// Reason is the stable code of the message.
	Reason gang.Reason `json:"reason"`
	// Message describes the phase in a sentence. It contains no value that changes within a phase.
	Message string `json:"message"`
	State
}

// ReadStatus returns the status that was last written to a workload. It returns the zero value if
// there is none, if it cannot be decoded, or if it has another version.
func ReadStatus(w gang.Workload) Status {
	var s Status
	text := w.Meta().Annotations[gang.AnnotationStatus]
	isTooLong := len(text) > gang.MaxWrittenAnnotationLength
	if isTooLong || json.Unmarshal([]byte(text), &s) != nil || s.Version != StatusVersion {
		return Status{}
	}
	return s
}

// Encode returns the JSON of the annotation.
func (s Status) Encode() (string, error) {
	s.Version = StatusVersion
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding the annotation %s: %w", gang.AnnotationStatus, err)
	}
	return string(text), nil
}

// ReadPhase returns the phase in the label of a workload. It returns the empty phase if the label is
// absent or its value is not a phase.
func ReadPhase(w gang.Workload) Phase {
	phase := Phase(w.Meta().Labels[gang.LabelPhase])
	if !slices.Contains(Phases(), phase) {
		return ""
	}
	return phase
}
