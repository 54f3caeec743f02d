package lifecycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/ranges"
)

const (
	// recordDelay is how long the completed ranks must differ from the status before they are written. Each
	// further write waits twice as long, so the number of writes grows with the logarithm of the runtime.
	recordDelay = 30 * time.Second
	// maxRecordBytes limits the text of the completed ranks. A longer text is not recorded.
	maxRecordBytes = 4 * 1024
	// clockTolerance is by how much the clock of a manager may be behind that of the API server; see
	// controller.ServerClock.
	clockTolerance = 2 * time.Second
)

// completedRanks contains the ranks that this process observed to complete in an attempt of a gang, and when
// they are recorded in the status.
type completedRanks struct {
	attemptStartTime time.Time
	ranks            sets.Set[int32]
	// dueTime is when the ranks are recorded; zero if they are. delay is the delay of the last record.
	dueTime time.Time
	delay   time.Duration
}

// known returns the ranks that this process observed to complete, or that the status records.
func (c *completedRanks) known(s State) sets.Set[int32] {
	out := sets.New(parseIndexes(s.CompletedRanks, gang.MaxPods)...)
	if c.attemptStartTime.Equal(s.AttemptStartTime) {
		out = out.Union(c.ranks)
	}
	return out
}

// record replaces the observed ranks, and returns them as a text; empty if the text is too long.
func (c *completedRanks) record(s State, ranks sets.Set[int32]) string {
	switch {
	case s.Phase.Active(), s.Phase == Succeeded:
		c.attemptStartTime, c.ranks = s.AttemptStartTime, ranks
	case s.Phase != Restarting && !s.isFailedByRollcall(): // the first failure of an attempt may be reported later
		c.attemptStartTime, c.ranks = s.AttemptStartTime, nil
	}
	text := formatIndexes(sets.List(ranks))
	if len(text) > maxRecordBytes {
		return ""
	}
	return text
}

// completedRanksToRecord returns the completed ranks that the next state contains; empty if they do not matter any
// more.
func (s State) completedRanksToRecord(next State, policies gang.RestartRules, snapshot Snapshot) string {
	switch {
	case next.Phase == Restarting, next.Phase == Succeeded && s.Phase == Succeeded:
		return s.CompletedRanks
	case next.Phase == Succeeded && policies.CleanPodPolicy == gang.CleanPodPolicyNone && snapshot.hasCompletedRank():
		return snapshot.CompletedRanks // the kubelets run the ranks of a StatefulSet again, and they may fail without peers
	case !next.Phase.Active():
		return ""
	case next.AttemptStartTime.Equal(s.AttemptStartTime):
		return snapshot.CompletedRanks
	case snapshot.CompletedRanks != "":
		return NoRanks // the snapshot describes the attempt before
	default:
		return ""
	}
}

// hasCompletedRank reports whether a rank is known to have completed.
func (s Snapshot) hasCompletedRank() bool {
	return s.CompletedRanks != "" && s.CompletedRanks != NoRanks
}

// DelayRecord returns the next state with the completed ranks that were written last, unless the status is
// written anyway or the ranks have differed for long enough. It also returns the delay before the pass that writes
// them; 0 for none.
func (m *Memory) DelayRecord(last, next State, now time.Time) (State, time.Duration) {
	c := &m.completed
	isNew := next.CompletedRanks != last.CompletedRanks && (last.CompletedRanks != "" || next.CompletedRanks != NoRanks)
	switch {
	case next.Phase != last.Phase || !next.Phase.Active():
		c.dueTime = time.Time{}
		return next, 0
	case !isNew:
		c.dueTime = time.Time{}
	case c.dueTime.IsZero():
		c.delay = max(recordDelay, 2*c.delay)
		c.dueTime = now.Add(c.delay)
	case !now.Before(c.dueTime):
		return next, 0
	}
	next.CompletedRanks = last.CompletedRanks
	if c.dueTime.IsZero() {
		return next, 0
	}
	return next, c.dueTime.Sub(now)
}

// findCompletedRanks returns the ranks that completed in the current attempt, and the number of ranks of a Job that
// are lost: they have no pod, and their Job creates none. A rank without a pod that the Job counts as
// completed is lost unless it is known to have completed: its pod was deleted before Rollcall observed it, and its
// program exited with code 0. If the Job has replaced that pod already, the rank runs again and takes the place of
// another: the Job counts its pod as one too many, and deletes the pod of any rank (kubernetes pkg/controller/job,
// activePodsForRemoval), or does not replace a rank that failed meanwhile. A pod that was created after all ranks were
// ready replaced another, and a Job does not replace a pod that succeeded by itself. readyTime is zero if it is not
// known.
func (w WorkloadEvidence) findCompletedRanks(
	c failure.Context, known sets.Set[int32], readyTime time.Time,
) (completed []int32, lost int32) {
	if w.StatefulSet != nil {
		return w.findSucceededRanks(c, known), 0
	}
	if w.Job.Status.CompletedIndexes == "" || Observe(w.Workload).Complete {
		return nil, 0
	}
	hasPod, succeeded, isReplaced := sets.Set[int32]{}, map[int32]bool{}, map[int32]bool{}
	for i := range w.Pods {
		pod, index := &w.Pods[i], gang.PodIndex(&w.Pods[i])
		if !c.IsFromEarlierAttempt(pod) {
			hasPod.Insert(index)
		}
		succeeded[index] = succeeded[index] || c.HasSucceeded(pod)
		isReplaced[index] = isReplaced[index] || isReplacement(pod, readyTime)
	}
	counted := parseIndexes(w.Job.Status.CompletedIndexes, w.Ranks())
	var runAgain int32
	for _, index := range counted {
		rank := w.Gang.RankOffset + index
		switch {
		case succeeded[index], !hasPod.Has(index) && known.Has(rank):
			completed = append(completed, rank)
		case !hasPod.Has(index), isReplaced[index]:
			lost++
		default:
			runAgain++
		}
	}
	withoutPod := w.Ranks() - int32(hasPod.Insert(counted...).Len())
	return completed, lost + max(0, min(runAgain, withoutPod))
}

// findSucceededRanks returns the ranks of a StatefulSet that succeeded in the current attempt. The kubelet runs their
// containers again, so only the memory shows later that such a rank had succeeded, until a new pod replaces its pod.
func (w WorkloadEvidence) findSucceededRanks(c failure.Context, known sets.Set[int32]) []int32 {
	var out []int32
	for i := range w.Pods {
		pod, rank := &w.Pods[i], w.Gang.RankOffset+gang.PodIndex(&w.Pods[i])
		isNew := c.HasSucceeded(pod) && pod.DeletionTimestamp == nil && c.List(w.Pods[i:i+1], 0) == nil
		if isNew || known.Has(rank) && hasExitedContainer(pod) && !c.IsFromEarlierAttempt(pod) {
			out = append(out, rank)
		}
	}
	return out
}

// countReadyOrCompleted returns the number of pods that are ready, or whose ranks completed. The kubelet delays further
// runs of the containers of a completed rank.
func (w WorkloadEvidence) countReadyOrCompleted(completed sets.Set[int32]) int32 {
	return countPods(w.Pods, func(pod *corev1.Pod) bool {
		return IsPodReady(pod) || completed.Has(w.Gang.RankOffset+gang.PodIndex(pod))
	})
}

// excludeCompletedRanks returns the pods of which a failure counts. A rank of a StatefulSet that is known to have
// completed runs again without its peers, and may fail because of that. If somebody deletes its pod, the UID of the new
// pod shows that.
func (w WorkloadEvidence) excludeCompletedRanks(pods []corev1.Pod, known sets.Set[int32]) []corev1.Pod {
	if w.StatefulSet == nil || known.Len() == 0 {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		return known.Has(w.Gang.RankOffset + gang.PodIndex(&pod))
	})
}

// hasExitedContainer reports whether a container of a pod has exited, and may run again.
func hasExitedContainer(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	})
}

// isStatefulSetComplete reports whether the StatefulSet of a member has completed: each of its ranks succeeded, or its
// first rank did if the member completes with it. The status of a StatefulSet does not contain this, so the result is
// known only while the pods exist. Pods that exit while their gang restarts do not count, because Rollcall terminates
// them: last is the phase that was last written to the workload. completed contains the ranks that are known to have
// completed.
func (w WorkloadEvidence) isStatefulSetComplete(
	m MemberState, completed sets.Set[int32], trainingContainers []string, last Phase,
) bool {
	if w.StatefulSet == nil || m.Observed.Size == 0 || last == Restarting {
		return false
	}
	succeeded := map[int32]bool{}
	for i := range w.Pods {
		index := gang.PodIndex(&w.Pods[i])
		hasSucceeded := completed.Has(w.Gang.RankOffset+index) ||
			w.Pods[i].DeletionTimestamp == nil && failure.RankSucceeded(&w.Pods[i], trainingContainers)
		if hasSucceeded && index < m.Observed.Size { // others were removed by a resize
			succeeded[index] = true
		}
	}
	return int32(len(succeeded)) >= m.Observed.Size || m.CompletesWithFirstPod && succeeded[0]
}

// formatIndexes returns indexes in the format of [parseIndexes], or [NoRanks].
func formatIndexes(indexes []int32) string { return cmp.Or(ranges.Of(indexes).String(), NoRanks) }

// parseIndexes returns the indexes below size in the format of completedIndexes, such as "0,3-5".
func parseIndexes(text string, size int32) []int32 {
	var out []int32
	set, _ := ranges.Parse(text, 0, math.MaxInt32)
	for _, r := range set {
		for i := r[0]; i <= min(r[1], size-1); i++ {
			out = append(out, i)
		}
	}
	return out
}

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
		!hasEarlierAttemptLabel(pod, attempt)
}
