package failure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
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

// terminationDecisionTime returns when the deletion of a pod was decided. A disruption is decided
// before the deletion is requested.
func terminationDecisionTime(pod *corev1.Pod) time.Time {
	requested := DeletionRequestTime(pod)
	if _, decided := findDisruption(pod); !decided.IsZero() && decided.Before(requested) {
		return decided
	}
	return requested
}

// DeletionRequestTime returns when the deletion of a pod was requested. The pod must have a deletion
// timestamp, which is the end of the grace period.
func DeletionRequestTime(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(-gracePeriod(pod))
}

// gracePeriod returns the grace period of a pod that is being deleted.
func gracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
}

// IsDeletionConfirmed reports whether a pod that is being deleted has no containers any more, so that
// only finalizers keep the object. The grace period is then 0: the kubelet confirmed the termination, the
// pod had no node, or somebody forced the deletion. From Kubernetes 1.37, the API server then moves the deletion
// timestamp to the present (apiserver, pkg/registry/rest/delete.go).
func IsDeletionConfirmed(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && gracePeriod(pod) == 0
}
