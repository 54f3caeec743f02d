package failure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// findDisruption returns reason and time of the condition by which the control plane or the kubelet announces
// that it terminates a pod (KEP-3329), for example because its node is drained. Both are zero if the pod does
// not have the condition.
//
// A kubelet adds the condition with the current time after all containers of the pod have ended (kubernetes
// pkg/kubelet/status, mergePodStatus). So it decided before the first of them exited, unless it restarted the
// container.
func findDisruption(pod *corev1.Pod) (reason string, decided time.Time) {
	condition := disruptionCondition(pod)
	reason, decided = condition.Reason, condition.LastTransitionTime.Time
	if reason != corev1.PodReasonTerminationByKubelet {
		return reason, decided
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && !t.FinishedAt.IsZero() && t.FinishedAt.Time.Before(decided) {
			decided = t.FinishedAt.Time
		}
	}
	return reason, decided
}

// disruptionCondition returns the condition DisruptionTarget of a pod; the zero value if the pod does not have it.
func disruptionCondition(pod *corev1.Pod) corev1.PodCondition {
	return FindCondition(pod, corev1.DisruptionTarget, corev1.ConditionTrue)
}

// FindCondition returns a condition of a pod; the zero value if the pod does not have it, or with another status.
func FindCondition(
	pod *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus,
) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == t && c.Status == status {
			return c
		}
	}
	return corev1.PodCondition{}
}

// isTerminatedByKubelet reports whether a pod ended because its kubelet evicted it or shut down.
func isTerminatedByKubelet(pod *corev1.Pod) bool {
	return disruptionCondition(pod).Reason == corev1.PodReasonTerminationByKubelet
}

// IsDisrupted reports whether a pod has the condition with a reason; see [findDisruption].
func IsDisrupted(pod *corev1.Pod) bool {
	return disruptionCondition(pod).Reason != ""
}
