package lifecycle

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// isCompletingGang reports whether a workload is a Job that determines the completion of the gang, as its only
// member does, and that its controller is about to complete. The Job controller collects the events of pods for
// a second before it adds a condition (kubernetes pkg/controller/job, SyncJobBatchPeriod). Meanwhile, other ranks
// may fail because their peer has exited. Pods that exit while their gang restarts do not count, because Rollcall
// terminates them.
func (w WorkloadEvidence) isCompletingGang(m MemberState, isOnlyMember bool, s State) bool {
	isDetermining := m.DeterminesCompletion || isOnlyMember
	return w.Job != nil && s.Phase != Restarting && isDetermining && !m.Observed.HasResult() &&
		isCompleting(w.Workload, w.Pods, s.Attempt)
}

// mayMeetSuccessPolicy reports whether a Job may complete by its successPolicy in an attempt. The Job
// controller deletes the other pods before it adds the condition.
func (w WorkloadEvidence) mayMeetSuccessPolicy(attempt int32) bool {
	if w.Job == nil || w.Job.Spec.SuccessPolicy == nil {
		return false
	}
	succeeded := sets.New(parseIndexes(w.Job.Status.CompletedIndexes, w.Ranks())...)
	for i := range w.Pods {
		if hasFinishedWork(&w.Pods[i], attempt) {
			succeeded.Insert(gang.PodIndex(&w.Pods[i]))
		}
	}
	return meetsSuccessPolicy(w.Workload, succeeded)
}

// isCompleting reports whether the pods of an attempt complete a Job: all indexes have succeeded, or those
// of a rule of its successPolicy.
func isCompleting(w gang.Workload, pods []corev1.Pod, attempt int32) bool {
	succeeded := succeededIndexes(w, pods, attempt)
	return succeeded.Len() > 0 && (int32(succeeded.Len()) >= w.Ranks() || meetsSuccessPolicy(w, succeeded))
}

// meetsSuccessPolicy reports whether succeeded indexes meet a rule of the successPolicy of a Job; false without one.
func meetsSuccessPolicy(w gang.Workload, succeeded sets.Set[int32]) bool {
	policy := w.Job.Spec.SuccessPolicy
	return policy != nil && slices.ContainsFunc(policy.Rules, func(rule batchv1.SuccessPolicyRule) bool {
		return newRuleScope(rule, w.Ranks()).isMet(succeeded)
	})
}

// deadlineTolerance is by how much the clock of the Job controller may be ahead of that of the API server.
const deadlineTolerance = 5 * time.Second

// isPastDeadline reports whether a Job that has no result has exceeded its activeDeadlineSeconds. The Job controller
// deletes the pods before it adds the condition FailureTarget.
func isPastDeadline(w gang.Workload, now time.Time) bool {
	job := w.Job
	if job == nil || job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil || w.IsSuspended() ||
		Observe(w).HasResult() {
		return false
	}
	deadline := job.Status.StartTime.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second)
	return !now.Before(deadline.Add(-deadlineTolerance))
}

// ruleScope contains the indexes of which a rule of a successPolicy counts the successes.
type ruleScope struct {
	indexes sets.Set[int32] // nil for all indexes of the Job
	// size is the number of the indexes, and count is how many of them must succeed.
	size, count int32
}

// newRuleScope returns the scope of a rule of a Job with a number of ranks.
func newRuleScope(rule batchv1.SuccessPolicyRule, ranks int32) ruleScope {
	out := ruleScope{size: ranks}
	if rule.SucceededIndexes != nil {
		out.indexes = sets.New(parseIndexes(*rule.SucceededIndexes, ranks)...)
		out.size = int32(out.indexes.Len())
	}
	out.count = ptr.Deref(rule.SucceededCount, out.size)
	return out
}

func (s ruleScope) contains(index int32) bool { return s.indexes == nil || s.indexes.Has(index) }

// isMet reports whether succeeded indexes meet the rule.
func (s ruleScope) isMet(succeeded sets.Set[int32]) bool {
	matching := int32(0)
	for index := range succeeded {
		if s.contains(index) {
			matching++
		}
	}
	return matching > 0 && matching >= s.count
}

// succeededIndexes returns the indexes with a pod that succeeded in an attempt and that the Job has counted
// or will count. A reset of the completed indexes leaves earlier pods that it does not count again.
func succeededIndexes(w gang.Workload, pods []corev1.Pod, attempt int32) sets.Set[int32] {
	counted := sets.New(parseIndexes(w.Job.Status.CompletedIndexes, w.Ranks())...)
	out := sets.Set[int32]{}
	for i := range pods {
		pod, index := &pods[i], gang.PodIndex(&pods[i])
		if hasFinishedWork(pod, attempt) && index < w.Ranks() && (IsTracked(pod) || counted.Has(index)) {
			out.Insert(index)
		}
	}
	return out
}

// hasFinishedWork reports whether all containers of a pod succeeded in an attempt, also while its native sidecars
// terminate. A rank that somebody deletes or evicts, and that exits with code 0, has not finished its work.
func hasFinishedWork(pod *corev1.Pod, attempt int32) bool {
	return failure.RankSucceeded(pod, nil) && pod.DeletionTimestamp == nil && !failure.IsDisrupted(pod) &&
		!isOfEarlierAttempt(pod, attempt)
}
