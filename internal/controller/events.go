package controller

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
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

// unboundReportDelay is how long a pod waits for its node before the gang reports it. Schedulers need seconds, and
// autoscalers minutes.
const unboundReportDelay = time.Minute

// reportUnboundPods records an Event with the words of the scheduler if ranks wait long for their nodes, once for each
// attempt. The status of the gang does not contain them, because they change, and each change costs writes.
func (r *Reconciler) reportUnboundPods(g *observedGang, next lifecycle.State) {
	if g.observed.Placement.Unbound == 0 || next.Phase != lifecycle.Pending && next.Phase != lifecycle.Starting {
		return
	}
	s, fact := g.pass.session, fmt.Sprintf("unbound pods %d", next.Attempt)
	if remaining := unboundReportDelay - r.Clock.Since(g.observed.Placement.UnboundSince); remaining > 0 {
		g.pass.requeueAfter(remaining)
		return
	}
	if s.recordReport(fact) {
		r.recordWarning(g.primaryMember().Workload, gang.ReasonRanksUnschedulable, eventActionCheckNodes,
			"Ranks wait for their nodes: %s", strings.Join(g.observed.NotReadyRanks, "; "))
	}
}
