package controller

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/lifecycle"
)

// stuckPodGracePeriod is how long after its grace period a terminating pod is reported. The kubelet
// kills the containers at the end of the grace period and then has to unmount the volumes.
const stuckPodGracePeriod = 10 * time.Second

// findStuckPod returns the first terminating pod that exceeded its grace period, if the gang or the
// workload waits for it. The node of the pod probably does not respond, and only an administrator can
// mark the node as out of service. If no pod is stuck, nextCheckTime is when the next pod exceeds its
// grace period; zero if no pod terminates.
func (m member) findStuckPod(
	pods []corev1.Pod, phase lifecycle.Phase, now time.Time,
) (stuck *corev1.Pod, nextCheckTime time.Time) {
	if phase != lifecycle.Restarting && !m.waitsForPodDeletion() {
		return nil, time.Time{}
	}
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp == nil || attempt.IsPodTerminal(pod) || pod.Spec.NodeName == "" {
			continue
		}
		if attempt.IsDeletionConfirmed(pod) && !m.waitsForPodDeletion() {
			continue // nobody waits for the pod
		}
		if due := pod.DeletionTimestamp.Add(stuckPodGracePeriod); due.After(now) {
			nextCheckTime = earliestTime(nextCheckTime, due)
		} else if stuck == nil || pod.Name < stuck.Name {
			stuck = pod
		}
	}
	return stuck, nextCheckTime
}

// waitsForPodDeletion reports whether a workload creates no pod before the previous pod is deleted. A
// StatefulSet does so, and a Job with podReplacementPolicy Failed, which is the default of Jobs with a
// podFailurePolicy.
func (m member) waitsForPodDeletion() bool {
	if m.Job == nil {
		return m.StatefulSet != nil
	}
	return ptr.Deref(m.Job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed
}

// stuckPodStatus returns the reason and the message for a gang that waits for a stuck pod; the zero
// value if it does not. The message contains no value that changes within a phase.
func (g *observedGang) stuckPodStatus(next lifecycle.State) lifecycle.Status {
	pod := g.stuckPod
	if pod == nil {
		return lifecycle.Status{}
	}
	isStarting := next.Phase == lifecycle.Pending || next.Phase == lifecycle.Starting
	isRestarting := next.Phase == lifecycle.Restarting
	var consequence string
	switch {
	case g.blocksReplacement && (isStarting || isRestarting):
		consequence = "Kubernetes creates no replacement before this pod is deleted"
	case isRestarting && g.isIsolated:
		consequence = "Rollcall restarts the gang without this pod one minute later, " +
			"because the Service of the gang now publishes only the next attempt"
	case isRestarting:
		consequence = "Its processes may still run, and the Service of the gang cannot exclude them. The restart waits " +
			"until Kubernetes or an administrator confirms that the node is gone"
	default:
		return lifecycle.Status{}
	}
	return lifecycle.Status{
		Reason: gang.ReasonPodStuckTerminating,
		Message: fmt.Sprintf("%s. Pod %s on node %s is still terminating (due %s). %s. "+
			"If the machine is off, delete Node %s or taint it with %s=nodeshutdown:NoExecute",
			next.Describe(g.gangPolicies(), g.memberStates), pod.Name, pod.Spec.NodeName,
			pod.DeletionTimestamp.UTC().Format("15:04:05 UTC"), consequence,
			pod.Spec.NodeName, corev1.TaintNodeOutOfService),
	}
}

// limitStuckPodReports returns the status that reports a stuck pod, or what was reported last. The pods of a large
// gang exceed their grace period one after the other if their nodes are slow, and a report of each would cost as many
// writes as the gang has pods. A pod is reported only when no other pod has terminated for stuckPodGracePeriod, and
// another pod only when the phase has lasted twice as long as at the last report.
func (r *Reconciler) limitStuckPodReports(
	g *observedGang, next lifecycle.State, status lifecycle.Status,
) lifecycle.Status {
	s, now := r.sessions.forRequest(g.pass.request), r.Clock.Now()
	remaining := stuckPodGracePeriod - s.recordTerminatingPods(g.terminatingPods, now)
	reported := g.lastStatusWithReason(gang.ReasonPodStuckTerminating)
	if next.Phase != g.lastState().Phase {
		reported = lifecycle.Status{} // the message describes the last phase
	}
	isReported := strings.HasPrefix(reported.Message, lifecycle.TruncateMessage(status.Message)) // strangers follow
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
