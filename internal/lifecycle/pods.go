package lifecycle

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// TerminationTimeout is how long after its grace period a terminating pod is overdue. A pod on an unreachable
// node may never disappear. Its processes may still run there, so the reconciler ignores it only if the Service
// of the gang does not publish it any more (docs/adr/0005-restarts.md).
const TerminationTimeout = time.Minute

// IsPodTerminal reports whether a pod succeeded or failed.
func IsPodTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsTerminationOverdue reports whether a pod is being deleted and exceeded its termination deadline.
func IsTerminationOverdue(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !now.Before(TerminationDeadline(pod))
}

// TerminationDeadline returns when the termination of a pod that is being deleted is overdue.
func TerminationDeadline(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(TerminationTimeout)
}

// IsTracked reports whether the Job of a pod has not counted the pod yet.
func IsTracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// HasUncountedSuccess reports whether a pod of a Job has succeeded and the Job has not counted the
// pod; false for a StatefulSet. The Job controller adds the index of the pod to the completed indexes
// and then removes the finalizer of the pod (kubernetes pkg/controller/job,
// trackJobStatusAndRemoveFinalizers), also while the Job is suspended. If the completed indexes were
// cleared before, the next attempt would lose the rank. Failed pods do not count: with
// backoffLimitPerIndex, they keep the finalizer until the next attempt replaces them.
func HasUncountedSuccess(job *batchv1.Job, pods []corev1.Pod) bool {
	return job != nil && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded && IsTracked(&pod)
	})
}

// hasEarlierAttemptLabel reports whether a pod was created before an attempt; false without the label.
func hasEarlierAttemptLabel(pod *corev1.Pod, attempt int32) bool {
	podAttempt, hasAttempt := gang.PodAttempt(pod)
	return hasAttempt && podAttempt < attempt
}

// hasFailedOrIsDeleted reports whether a pod failed, or is being deleted and did not succeed.
func hasFailedOrIsDeleted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

// countPods returns the number of pods that match.
func countPods(pods []corev1.Pod, matches func(*corev1.Pod) bool) int32 {
	var n int32
	for i := range pods {
		if matches(&pods[i]) {
			n++
		}
	}
	return n
}

// countUncountedFailures returns the number of failed or deleted pods that are missing from
// Observation.FailedPods; 0 for a nil Job. The pods have the finalizer of the Job controller
// (kubernetes pkg/controller/job). Pods that status.uncountedTerminatedPods.failed contains are
// part of FailedPods, so the result excludes them. With backoffLimitPerIndex, the Job counts a pod
// only when it replaces the pod, which happens in the next attempt. It never counts a pod that its
// podFailurePolicy ignores.
func countUncountedFailures(job *batchv1.Job, pods []corev1.Pod) int32 {
	if job == nil {
		return 0
	}
	var counted sets.Set[types.UID] // a search through a slice for each pod would cost the product of both sizes
	if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
		counted = sets.New(uncounted.Failed...) // part of Observation.FailedPods
	}
	return countPods(pods, func(pod *corev1.Pod) bool {
		return hasFailedOrIsDeleted(pod) && IsTracked(pod) && !counted.Has(pod.UID) && !isIgnored(job, pod)
	})
}

// countObservedFailures returns the number of pods of a Job that failed or are being deleted in the current attempt,
// and that the Job does not ignore; 0 for a nil Job.
func countObservedFailures(job *batchv1.Job, pods []corev1.Pod, c failure.Context) int32 {
	if job == nil {
		return 0
	}
	return countPods(pods, func(pod *corev1.Pod) bool {
		return hasFailedOrIsDeleted(pod) && !c.IsFromEarlierAttempt(pod) && !isIgnored(job, pod)
	})
}

// countOriginalPods returns the number of pods of a Job that run and that replaced no other; 0 for a StatefulSet.
// readyTime is zero if it is not known.
func (w WorkloadEvidence) countOriginalPods(readyTime time.Time) int32 {
	if w.Job == nil {
		return 0
	}
	return countPods(w.Pods, func(p *corev1.Pod) bool {
		return !isReplacement(p, readyTime) && p.DeletionTimestamp == nil && !IsPodTerminal(p)
	})
}

// hasFormerPods reports whether pods of a Job run that was started before a time, or pods of a StatefulSet that were
// created before the time. The Job may have replaced its pods since.
func (w WorkloadEvidence) hasFormerPods(t time.Time) bool {
	isFormerJob := w.Job != nil && w.Job.Status.StartTime != nil && w.Job.Status.StartTime.Time.Before(t)
	return slices.ContainsFunc(w.Pods, func(pod corev1.Pod) bool {
		isFormer := isFormerJob || w.StatefulSet != nil && pod.CreationTimestamp.Time.Before(t)
		return isFormer && pod.DeletionTimestamp == nil && !IsPodTerminal(&pod)
	})
}

// findPodsToUntrack returns the pods that their Job must not count; nil for a StatefulSet. They are being deleted, and
// the Job has not counted them. The caller makes sure that somebody else than Rollcall and the Job controller deletes
// the pods: the latter untracks the pods that it deletes. So many of them are returned that the Job cannot complete,
// even if all other pods exit with code 0. While a gang restarts, a pod of the Job was untracked before, unless all of
// them are deleted only now.
func findPodsToUntrack(w gang.Workload, pods []corev1.Pod, isRestarting bool) []*corev1.Pod {
	if w.Job == nil {
		return nil
	}
	var deleted, out []*corev1.Pod
	for i := range pods {
		if pods[i].DeletionTimestamp != nil && IsTracked(&pods[i]) {
			deleted = append(deleted, &pods[i])
		}
	}
	slices.SortStableFunc(deleted, func(a, b *corev1.Pod) int { return cmp.Compare(gang.PodIndex(a), gang.PodIndex(b)) })
	var rules []batchv1.SuccessPolicyRule
	if policy := w.Job.Spec.SuccessPolicy; policy != nil {
		rules = policy.Rules
	}
	if !isRestarting || canAllSucceed(w, pods) {
		rules = append(slices.Clone(rules), batchv1.SuccessPolicyRule{}) // success of all indexes completes any Job
	}
	for _, rule := range rules {
		scope := newRuleScope(rule, w.Ranks())
		needed := scope.size - scope.count + 1
		for _, pod := range out {
			if scope.contains(gang.PodIndex(pod)) {
				needed--
			}
		}
		for _, pod := range deleted {
			if needed > 0 && scope.contains(gang.PodIndex(pod)) && !slices.Contains(out, pod) {
				needed--
				out = append(out, pod)
			}
		}
	}
	return out
}

// canAllSucceed reports whether a Job has counted each index as succeeded, or can still count a pod of the index.
func canAllSucceed(w gang.Workload, pods []corev1.Pod) bool {
	indexes := sets.New(parseIndexes(w.Job.Status.CompletedIndexes, w.Ranks())...)
	for i := range pods {
		if IsTracked(&pods[i]) && pods[i].Status.Phase != corev1.PodFailed {
			indexes.Insert(gang.PodIndex(&pods[i]))
		}
	}
	return indexes.Len() >= int(w.Ranks())
}

// isIgnored reports whether a Job does not count a failed pod, because the first rule of its podFailurePolicy that
// matches the pod has the action Ignore (kubernetes pkg/controller/job, matchPodFailurePolicy).
func isIgnored(job *batchv1.Job, pod *corev1.Pod) bool {
	if job.Spec.PodFailurePolicy == nil {
		return false
	}
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		hasExited := rule.OnExitCodes != nil && hasExitCode(pod, *rule.OnExitCodes)
		if hasExited || hasAnyCondition(pod, rule.OnPodConditions) {
			return rule.Action == batchv1.PodFailurePolicyActionIgnore
		}
	}
	return false
}

// hasExitCode reports whether the exit code of a container, other than 0, meets a requirement.
func hasExitCode(pod *corev1.Pod, r batchv1.PodFailurePolicyOnExitCodesRequirement) bool {
	statuses := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	return slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool {
		exited := c.State.Terminated
		isNamed := r.ContainerName == nil || *r.ContainerName == c.Name
		return isNamed && exited != nil && exited.ExitCode != 0 &&
			slices.Contains(r.Values, exited.ExitCode) == (r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
	})
}

// hasAnyCondition reports whether a pod has one of the conditions.
func hasAnyCondition(pod *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return slices.Contains(patterns, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: c.Type, Status: c.Status})
	})
}

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
		// With backoffLimitPerIndex, the Job controller keeps its finalizer until the next attempt replaces the pod
		// (kubernetes pkg/controller/job, canRemoveFinalizer).
		case failure.IsDeletionConfirmed(pod), ignoresLost && pod.DeletionTimestamp != nil && failure.IsOnLostNode(pod):
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

// excludeNextAttempt returns the pods of a workload without those of the attempt that starts because a user or a queue
// resumed the gang. If such a pod is being deleted, it is a failure, unless its Job was suspended once more before all
// members were resumed.
func (w WorkloadEvidence) excludeNextAttempt(s State) []corev1.Pod {
	isOfNext := func(pod corev1.Pod) bool {
		podAttempt, hasAttempt := gang.PodAttempt(&pod)
		return hasAttempt && podAttempt >= s.Attempt && !w.precedesStart(&pod)
	}
	if s.Phase != Suspended || w.IsSuspended() || !slices.ContainsFunc(w.Pods, isOfNext) {
		return w.Pods
	}
	return slices.DeleteFunc(slices.Clone(w.Pods), isOfNext)
}

// precedesStart reports whether the deletion of a pod was requested before its Job was started last, or the Job is not
// started.
func (w WorkloadEvidence) precedesStart(pod *corev1.Pod) bool {
	if w.Job == nil || pod.DeletionTimestamp == nil {
		return false
	}
	start := w.Job.Status.StartTime
	return start == nil || failure.DeletionRequestTime(pod).Before(start.Time)
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
	check := func(pod *corev1.Pod) {
		// A StatefulSet creates no pod while the object of the previous one exists, which a finalizer can keep.
		hasEnded := IsPodTerminal(pod) && w.StatefulSet == nil
		if pod.DeletionTimestamp == nil || hasEnded || pod.Spec.NodeName == "" {
			return
		}
		if failure.IsDeletionConfirmed(pod) && !w.waitsForPodDeletion() {
			return // nobody waits for the pod
		}
		if due := pod.DeletionTimestamp.Add(StuckPodGracePeriod); due.After(now) && !failure.IsOnLostNode(pod) {
			nextCheckTime = earliestTime(nextCheckTime, due)
		} else if stuck == nil || pod.Name < stuck.Name {
			stuck = pod
		}
	}
	for i := range w.Pods {
		check(&w.Pods[i])
	}
	if w.NameHolder != nil {
		check(w.NameHolder)
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
