package failure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// findLostNode returns when Kubernetes found that the node of a pod does not report any more; zero if the node
// reports, or if that is not known. After 50 seconds without a lease, the node lifecycle controller sets the
// condition Ready of the pods of a node to False and its reason to nothing (kubernetes pkg/controller/util/node,
// MarkPodsNotReady). Kubelets always give a reason, and the containers of a pod that is not ready are not ready
// either. So a lost node shows in its pods, without permission to read nodes. A pod with readiness gates depends on
// other controllers, and does not count. The condition takes itself back when the node returns.
func findLostNode(pod *corev1.Pod) time.Time {
	notReady := FindCondition(pod, corev1.PodReady, corev1.ConditionFalse)
	areContainersReady := FindCondition(pod, corev1.ContainersReady, corev1.ConditionTrue).Type != ""
	isTerminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if notReady.Reason != "" || !areContainersReady || isTerminal || len(pod.Spec.ReadinessGates) > 0 {
		return time.Time{}
	}
	return notReady.LastTransitionTime.Time
}

// IsOnLostNode reports whether the node of a pod does not report any more; see [findLostNode].
func IsOnLostNode(pod *corev1.Pod) bool { return !findLostNode(pod).IsZero() }

// lostNodeFailure returns the failure of a pod on a lost node; nil if its node is not lost or does not count. A node
// that was lost before the attempt started was the reason for a restart already, and a queue resumed the gang before
// its pods were deleted.
func (c Context) lostNodeFailure(pod *corev1.Pod) *Failure {
	lost := findLostNode(pod)
	if c.IgnoresLostNodes || lost.IsZero() || !lost.After(c.AttemptStartTime) {
		return nil
	}
	return &Failure{Reason: ReasonNodeLost, Time: lost}
}
