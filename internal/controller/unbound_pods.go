package controller

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// unboundReportDelay is how long a pod waits for its node before the gang reports it. Schedulers need seconds, and
// autoscalers minutes.
const unboundReportDelay = time.Minute

// recordUnboundPods records the pods that wait for a node, and since when the first of them waits.
func (g *observedGang) recordUnboundPods(pods []corev1.Pod) {
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			continue
		}
		g.unboundPods++
		if since := p.CreationTimestamp.Time; g.unboundSince.IsZero() || since.Before(g.unboundSince) {
			g.unboundSince = since
		}
	}
}

// reportUnboundPods records an Event with the words of the scheduler if ranks wait long for their nodes, once for each
// attempt. The status of the gang does not contain them, because they change, and each change costs writes.
func (r *Reconciler) reportUnboundPods(g *observedGang, next lifecycle.State) {
	if g.unboundPods == 0 || next.Phase != lifecycle.Pending && next.Phase != lifecycle.Starting {
		return
	}
	s, fact := g.pass.session, fmt.Sprintf("unbound pods %d", next.Attempt)
	if remaining := unboundReportDelay - r.Clock.Since(g.unboundSince); remaining > 0 {
		g.pass.requeueAfter(remaining)
		return
	}
	if s.recordReport(fact) {
		r.recordWarning(g.primaryMember().Workload, gang.ReasonRanksUnschedulable, eventActionCheckNodes,
			"Ranks wait for their nodes: %s", strings.Join(g.observed.NotReadyRanks, "; "))
	}
}
