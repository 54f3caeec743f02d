package failure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// terminationDecisionTime returns when the deletion of a pod was decided. A disruption is decided
// before the deletion is requested.
func terminationDecisionTime(pod *corev1.Pod) time.Time {
	requested := deletionRequestTime(pod)
	if _, decided := findDisruption(pod); !decided.IsZero() && decided.Before(requested) {
		return decided
	}
	return requested
}

// deletionRequestTime returns when the deletion of a pod was requested. The pod must have a deletion
// timestamp, which is the end of the grace period.
func deletionRequestTime(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(-gracePeriod(pod))
}

// gracePeriod returns the grace period of a pod that is being deleted.
func gracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
}

// hasConfirmedDeletion reports whether the grace period of a pod that is being deleted is 0. From
// Kubernetes 1.37, the kubelet confirms the termination of a pod by a deletion with that grace
// period, and the API server moves the deletion timestamp to the present
// (apiserver, pkg/registry/rest/delete.go). A forced deletion has the same effect.
func hasConfirmedDeletion(pod *corev1.Pod) bool { return gracePeriod(pod) == 0 }
