package gang

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is the content of the annotation [AnnotationStatus]: what users read of a
// gang's state on each of its members, and where it is kept.
type Status struct {
	Phase   Phase  `json:"phase,omitempty"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Since, Attempt, Begun, WasWhole, NotBefore, Fell, Counted and Cause are those of [State].
	Since     time.Time `json:"since"`
	Attempt   int32     `json:"attempt,omitempty"`
	Begun     time.Time `json:"begun,omitzero"`
	WasWhole  bool      `json:"wasWhole,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	Fell      time.Time `json:"fell,omitzero"`
	Counted   int32     `json:"counted,omitempty"`
	Cause     *Fall     `json:"cause,omitempty"`
	// Stopped is true on a member that Rollcall holds back, which nobody else did.
	Stopped bool `json:"stopped,omitempty"`
}

// StatusOf reads what was last said to a workload; the zero value when nothing was, or
// nothing that can be read.
func StatusOf(w Workload) Status {
	var s Status
	if json.Unmarshal([]byte(w.Meta().Annotations[AnnotationStatus]), &s) != nil {
		return Status{}
	}
	return s
}

// Text is the annotation's text.
func (s Status) Text() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("writing the annotation %s: %w", AnnotationStatus, err)
	}
	return string(text), nil
}

// State is the state that a status holds.
func (s Status) State() State {
	return State{Phase: s.Phase, Since: s.Since, Attempt: s.Attempt, Begun: s.Begun, WasWhole: s.WasWhole, NotBefore: s.NotBefore, Fell: s.Fell, Counted: s.Counted, Cause: s.Cause}
}

// With returns the status with another state; reason, message and what concerns the
// one member stay.
func (s Status) With(state State) Status {
	s.Phase, s.Since, s.Attempt, s.Begun = state.Phase, state.Since, state.Attempt, state.Begun
	s.WasWhole, s.NotBefore, s.Fell, s.Counted, s.Cause = state.WasWhole, state.NotBefore, state.Fell, state.Counted, state.Cause
	return s
}
