package attempt

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TerminationTimeout is how long after its grace period a terminating pod is overdue. A pod on an unreachable
// node may never disappear. Its processes may still run there, so the reconciler ignores it only if the Service
// of the gang does not publish it any more (docs/adr/0014-restart-by-suspend-and-resume.md).
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

// TerminationDeadline returns when the termination of a pod that is being deleted is overdue.
func TerminationDeadline(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(TerminationTimeout)
}
