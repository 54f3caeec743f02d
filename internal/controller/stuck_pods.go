package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// stuckPodStatus returns the reason and the message for a gang that waits for a stuck pod; the zero
// value if it does not. The message contains no value that changes within a phase.
func (r *Reconciler) stuckPodStatus(g *observedGang, next lifecycle.State) lifecycle.Status {
	pod, status := g.observed.StuckPod, lifecycle.Status{}
	if pod == nil {
		return r.limitStuckPodReports(g, next, status)
	}
	if consequence := g.describeStuckPod(next, pod); consequence != "" {
		fix := fmt.Sprintf("If the machine is off, delete Node %s or taint it with %s=nodeshutdown:NoExecute",
			pod.Spec.NodeName, corev1.TaintNodeOutOfService)
		if lifecycle.IsPodTerminal(pod) {
			fix = "Its containers have ended, so a finalizer of another program keeps it; see metadata.finalizers of the pod"
		}
		status.Reason = gang.ReasonPodStuckTerminating
		status.Message = fmt.Sprintf("%s. Pod %s on node %s is still terminating (due %s). %s. %s",
			next.Describe(g.gangPolicies(), g.memberStates), pod.Name, pod.Spec.NodeName,
			pod.DeletionTimestamp.UTC().Format("15:04:05 UTC"), consequence, fix)
	}
	return r.limitStuckPodReports(g, next, status)
}

// describeStuckPod describes what a stuck pod prevents; empty if nobody has to do anything.
func (g *observedGang) describeStuckPod(next lifecycle.State, pod *corev1.Pod) string {
	isStarting := next.Phase == lifecycle.Pending || next.Phase == lifecycle.Starting
	mayIsolate := g.hasAttemptLabels() && !g.memberStates.AllSuspended() // the next pass changes the Service
	isRestarting := next.Phase == lifecycle.Restarting && !mayIsolate
	switch {
	case g.observed.BlocksReplacement && (isStarting || isRestarting):
		return "Kubernetes creates no replacement before this pod is deleted"
	case isRestarting && !g.gangPolicies().RestartOnNodeLoss:
		return "Its processes may still run, so the restart waits until Kubernetes or an administrator confirms " +
			"that the node is gone, as the annotation " + gang.AnnotationRestartOnNodeLoss + " requires"
	case isRestarting && g.isIsolated && failure.IsOnLostNode(pod):
		return "" // the restart does not wait
	case isRestarting && g.isIsolated:
		return "Rollcall restarts the gang without this pod one minute later, " +
			"because the Service of the gang now publishes only the next attempt"
	case isRestarting:
		return "Its processes may still run, and the Service of the gang cannot exclude them. The restart waits " +
			"until Kubernetes or an administrator confirms that the node is gone"
	default:
		return ""
	}
}

// limitStuckPodReports returns the status that reports a stuck pod, or what was reported last. The pods of a large
// gang exceed their grace period one after the other if their nodes are slow, and a report of each would cost as many
// writes as the gang has pods. A pod is reported only when no other pod has terminated for
// [lifecycle.StuckPodGracePeriod], and another pod only when the phase has lasted twice as long as at the last report.
func (r *Reconciler) limitStuckPodReports(
	g *observedGang, next lifecycle.State, status lifecycle.Status,
) lifecycle.Status {
	s, now := g.pass.session, r.Clock.Now()
	remaining := lifecycle.StuckPodGracePeriod - s.recordTerminatingPods(g.observed.TerminatingPods, now)
	reported := g.lastStatusWithReason(gang.ReasonPodStuckTerminating)
	if next.Phase != g.lastState().Phase {
		reported = lifecycle.Status{} // the message describes the last phase
	}
	isReported := strings.HasPrefix(reported.Message, lifecycle.ShortenMessage(status.Message)) // strangers follow
	if status.Reason == "" || isReported {
		return status
	}
	last := s.lastStuckReportTime
	if lasted := last.Sub(next.LastTransitionTime); lasted >= 0 { // negative if the last report was in an earlier phase
		remaining = max(remaining, last.Add(lasted).Sub(now))
	}
	if remaining > 0 {
		g.pass.requeueAfter(remaining)
		return reported
	}
	s.lastStuckReportTime = now
	return status
}
