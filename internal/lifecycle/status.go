package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"

	"rollcall.training/gang"
	"rollcall.training/internal/text"
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

// The limits of a status. Rollcall writes less. A user with permission to patch the workload could
// write more, and Rollcall copies parts of a status to other members, conditions and Events.
const (
	maxStatusBytes  = 64 * 1024
	maxMessageBytes = 4 * 1024
	maxReasonBytes  = 64
	maxCount        = 1_000_000
)

// ReadStatus returns the status that was last written to a workload. It returns the zero value if
// there is none, if it cannot be decoded or exceeds 64 KiB, if it has another version, or if it was
// copied from another object. Numbers are limited to the values that Rollcall writes.
func ReadStatus(w gang.Workload) Status {
	text, uid := w.Meta().Annotations[gang.AnnotationStatus], w.Meta().UID
	var s Status
	if len(text) > maxStatusBytes || json.Unmarshal([]byte(text), &s) != nil || s.Version != StatusVersion {
		return Status{}
	}
	isCopy := uid != "" && len(s.MemberUIDs) > 0 && !slices.Contains(s.MemberUIDs, uid)
	if isCopy {
		return Status{}
	}
	// A build that does not know the annotation changes only the field.
	isTakenOver := w.Meta().Annotations[gang.AnnotationSuspendedBy] == gang.SuspendedByUser
	s.SuspendedByRollcall = s.SuspendedByRollcall && !isTakenOver
	s.Restarts = min(max(s.Restarts, 0), gang.MaxRestarts)
	s.Disruptions = min(max(s.Disruptions, 0), maxCount)
	s.Attempt = min(max(s.Attempt, s.Restarts), maxCount) // earlier builds write only restarts
	s.FailedPodsBaseline = max(s.FailedPodsBaseline, 0)
	s.Seconds = s.Seconds.limited()
	s.State = s.limitNodes()
	return s
}

// SuspendedBy returns the value of [gang.AnnotationSuspendedBy]; empty if Rollcall does not suspend the workload.
func (s Status) SuspendedBy() string {
	if s.SuspendedByRollcall {
		return gang.SuspendedByRollcall
	}
	return ""
}

// WriteTo sets the annotations and the label of a status on a workload. A status without a phase does not change
// the label.
func (s Status) WriteTo(w gang.Workload) error {
	text, err := s.Encode()
	if err != nil {
		return err
	}
	meta := w.Meta()
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[gang.AnnotationStatus] = text
	if by := s.SuspendedBy(); by != "" {
		meta.Annotations[gang.AnnotationSuspendedBy] = by
	} else {
		delete(meta.Annotations, gang.AnnotationSuspendedBy)
	}
	if s.Phase != "" {
		meta.Labels[gang.LabelPhase] = string(s.Phase)
	}
	return nil
}

// Encode returns the JSON of the annotation. A message of more than 4 KiB is truncated.
func (s Status) Encode() (string, error) {
	s.Version, s.Message = StatusVersion, ShortenMessage(s.Message)
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding the annotation %s: %w", gang.AnnotationStatus, err)
	}
	return string(text), nil
}

// ShortenMessage returns the message of a status as [Status.Encode] writes it.
func ShortenMessage(message string) string {
	return text.Shorten(message, maxMessageBytes)
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
