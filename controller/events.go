package controller

import (
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

func (r *Reconciler) normal(w gang.Workload, reason gang.Reason, action, note string, args ...any) {
	r.Recorder.Eventf(w.Object(), nil, corev1.EventTypeNormal, string(reason), action, note, args...)
}

func (r *Reconciler) warning(w gang.Workload, reason gang.Reason, action, note string, args ...any) {
	r.Recorder.Eventf(w.Object(), nil, corev1.EventTypeWarning, string(reason), action, note, args...)
}
