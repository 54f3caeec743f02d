package failure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FindDisruption returns reason and time of the condition by which the control plane or the kubelet announces
// that it terminates a pod (KEP-3329), for example because its node is drained. Both are zero if the pod does
// not have the condition.
func FindDisruption(pod *corev1.Pod) (reason string, decided time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason, c.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// IsDisrupted reports whether a pod has the condition with a reason; see [FindDisruption].
func IsDisrupted(pod *corev1.Pod) bool {
	reason, _ := FindDisruption(pod)
	return reason != ""
}
