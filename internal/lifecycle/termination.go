package lifecycle

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// podTermination describes whether pods of a member still prevent the next attempt of the gang.
type podTermination struct {
	// allTerminated is true if no pod prevents the next attempt.
	allTerminated bool
	// anyTerminating is true if a pod is being deleted, unless its termination is overdue and ignored.
	anyTerminating bool
	// nextTimeout is when the termination of the next pod is overdue; zero if no pod terminates.
	nextTimeout time.Time
}

// observeTermination observes the termination of the pods of a workload that counts terminatingPods. A pod whose
// termination is overdue prevents the next attempt unless ignoresOverdue is true. The deletion of a pod on a lost node
// does not reach anybody, so ignoresLost ignores it without a delay.
func observeTermination(
	terminatingPods int32, pods []corev1.Pod, now time.Time, ignoresOverdue, ignoresLost bool,
) podTermination {
	out := podTermination{allTerminated: true}
	var ignoredPods int32
	for i := range pods {
		pod := &pods[i]
		switch {
		case IsPodTerminal(pod):
		case IsDeletionConfirmed(pod), ignoresLost && pod.DeletionTimestamp != nil && failure.IsOnLostNode(pod):
			ignoredPods++
		case IsTerminationOverdue(pod, now):
			if ignoresOverdue {
				ignoredPods++
			} else {
				out.allTerminated, out.anyTerminating = false, true
			}
		case pod.DeletionTimestamp != nil:
			out.allTerminated, out.anyTerminating = false, true
			out.nextTimeout = earliestTime(out.nextTimeout, TerminationDeadline(pod))
		default:
			out.allTerminated = false
		}
	}
	// The Job may count pods that the cache does not contain yet.
	if terminatingPods > ignoredPods {
		out.allTerminated = false
	}
	return out
}

// excludeResumedPods returns the pods of a workload without those that somebody has deleted since a user or a queue
// resumed the gang. They do not terminate because of the suspension.
func (w WorkloadEvidence) excludeResumedPods(s State) []corev1.Pod {
	isResumed := func(pod corev1.Pod) bool {
		podAttempt, hasAttempt := gang.PodAttempt(&pod)
		return hasAttempt && podAttempt >= s.Attempt
	}
	if s.Phase != Suspended || w.IsSuspended() || !slices.ContainsFunc(w.Pods, isResumed) {
		return w.Pods
	}
	return slices.DeleteFunc(slices.Clone(w.Pods), isResumed)
}

// StuckPodGracePeriod is how long after its grace period a terminating pod is reported. The kubelet
// kills the containers at the end of the grace period and then has to unmount the volumes.
const StuckPodGracePeriod = 10 * time.Second

// findStuckPod returns the first terminating pod that exceeded its grace period or is on a lost node, if the gang or
// the workload waits for it. The node of the pod probably does not respond, and only an administrator can
// mark the node as out of service. If no pod is stuck, nextCheckTime is when the next pod exceeds its
// grace period; zero if no pod terminates.
func (w WorkloadEvidence) findStuckPod(phase Phase, now time.Time) (stuck *corev1.Pod, nextCheckTime time.Time) {
	if phase != Restarting && !w.waitsForPodDeletion() {
		return nil, time.Time{}
	}
	for i := range w.Pods {
		pod := &w.Pods[i]
		if pod.DeletionTimestamp == nil || IsPodTerminal(pod) || pod.Spec.NodeName == "" {
			continue
		}
		if IsDeletionConfirmed(pod) && !w.waitsForPodDeletion() {
			continue // nobody waits for the pod
		}
		if due := pod.DeletionTimestamp.Add(StuckPodGracePeriod); due.After(now) && !failure.IsOnLostNode(pod) {
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
func (w WorkloadEvidence) waitsForPodDeletion() bool {
	if w.Job == nil {
		return w.StatefulSet != nil
	}
	return ptr.Deref(w.Job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed
}
