package attempt

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TerminationTimeout is how long after its grace period a terminating pod is ignored. A pod on an
// unreachable node may never disappear, and its gang must not wait for the node. Processes that still
// run there cannot join the next attempt, because the addresses of the ranks belong to the new pods.
const TerminationTimeout = time.Minute

// IsPodTerminal reports whether a pod succeeded or failed.
func IsPodTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsDeletionConfirmed reports whether a pod that is being deleted has no containers any more, so that
// only finalizers keep the object. The grace period is then 0: the kubelet confirmed the termination, the
// pod had no node, or somebody forced the deletion. With backoffLimitPerIndex, the Job controller keeps
// its finalizer until the next attempt replaces the pod (kubernetes pkg/controller/job,
// canRemoveFinalizer), so the next attempt must not wait for the pod.
func IsDeletionConfirmed(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0
}

// IsTerminationOverdue reports whether a pod is being deleted and exceeded its termination deadline.
func IsTerminationOverdue(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !now.Before(TerminationDeadline(pod))
}

// TerminationDeadline returns when a pod that is being deleted is ignored.
func TerminationDeadline(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(TerminationTimeout)
}
