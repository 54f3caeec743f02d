package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// The actions of Events, which the Events API defines as what the reporting controller did.
const (
	eventActionCreateChildren = "CreateChildren"
	eventActionUpdatePhase    = "UpdatePhase"
	eventActionCheckInjection = "CheckInjection"
	eventActionCheckMembers   = "CheckMembers"
	eventActionResize         = "Resize"
	eventActionCheckNodes     = "CheckNodes"
	eventActionCheckService   = "CheckService"
)

func (r *Reconciler) recordWarning(w gang.Workload, reason gang.Reason, eventAction, note string, args ...any) {
	r.recordEvent(w, corev1.EventTypeWarning, reason, eventAction, fmt.Sprintf(note, args...))
}

// recordEvent records an Event on a workload. It truncates a note that is too long. The status contains
// the complete text.
func (r *Reconciler) recordEvent(w gang.Workload, eventType string, reason gang.Reason, eventAction, note string) {
	r.Recorder.Eventf(w.Object(), nil, eventType, string(reason), eventAction, "%s", gang.ShortenText(note))
}
