package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// none is a predicate that lets no event of its kind pass.
func none[E any](E) bool { return false }

// actions say what Rollcall did, in the words of the Events API.
const (
	actionMakeChildren = "MakeChildren"
	actionFollow       = "FollowPhase"
	actionLook         = "Look"
	actionResize       = "Resize"
)

// maxNote is the API server's limit for the text of an Event, in bytes
// (kubernetes pkg/apis/core/validation, noteLengthLimit).
const maxNote = 1024

func (r *Reconciler) normal(w gang.Workload, reason gang.Reason, action, note string, args ...any) {
	r.record(w, corev1.EventTypeNormal, reason, action, fmt.Sprintf(note, args...))
}

func (r *Reconciler) warning(w gang.Workload, reason gang.Reason, action, note string, args ...any) {
	r.record(w, corev1.EventTypeWarning, reason, action, fmt.Sprintf(note, args...))
}

// record cuts a text that is too long: the whole of it is in the status.
func (r *Reconciler) record(w gang.Workload, kind string, reason gang.Reason, action, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-len("...")], "") + "..."
	}
	r.Recorder.Eventf(w.Object(), nil, kind, string(reason), action, "%s", note)
}
