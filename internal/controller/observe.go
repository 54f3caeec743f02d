package controller

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// startingGracePeriod is how long a rank must be ready before its gang is Starting: long enough for new
// nodes and large images, so that the phase means a problem. Almost all gangs go directly to Running, which
// saves a write per member (docs/adr/0047-write-budget.md).
const startingGracePeriod = 5 * time.Minute

// takeSnapshot observes all members of a gang and their pods. It merges the observations into the
// snapshot and into the gang.
func (r *Reconciler) takeSnapshot(
	ctx context.Context, g *observedGang, state lifecycle.State,
) (lifecycle.Snapshot, error) {
	snapshot := lifecycle.Snapshot{
		Members:           g.memberStates,
		Now:               r.Clock.Now(),
		AllPodsTerminated: g.memberStates.AllSuspended(),
	}
	if err := r.observeIsolation(ctx, g, state, snapshot.Now); err != nil {
		return snapshot, err
	}
	s := r.sessions.forRequest(g.pass.request)
	g.knownCompleted = s.completed.known(state)
	completed := sets.Set[int32]{}
	var rankUIDs []types.UID
	hasAllRanks := true
	for i := range g.members {
		m := &g.members[i]
		if m.result == nil {
			continue
		}
		pods, err := r.listPods(ctx, m.Meta().Namespace, m.Meta().UID)
		if err != nil {
			return snapshot, err
		}
		m.resizeOverdue = s.isResizeOverdue(m.Workload, snapshot.Now)
		observed := g.observeMember(*m, pods, state, snapshot.Now)
		g.mergeObservation(m, observed, &snapshot)
		completed.Insert(observed.completedRanks...)
		rankUIDs = append(rankUIDs, observed.rankUIDs...)
		hasAllRanks = hasAllRanks && observed.hasAllRanks
	}
	if err := r.observeOrphans(ctx, g, state, &snapshot); err != nil {
		return snapshot, err
	}
	if f := s.undoneDisruption(state); f != nil {
		snapshot.FirstFailure = f
	}
	snapshot.CompletedRanks = s.completed.record(state, completed)
	if len(rankUIDs) > 0 && hasAllRanks {
		snapshot.StatefulSetPods = lifecycle.IdentifyPods(rankUIDs)
	}
	return snapshot, nil
}

// memberObservation is what one pass observes of a member and its pods.
type memberObservation struct {
	podCount           int
	nonTerminatingPods int
	// statefulSetComplete is true if the pods of a StatefulSet show that it is complete.
	statefulSetComplete bool
	// endingGang is true if the Job is about to complete the gang, or to fail because of its deadline.
	endingGang        bool
	firstFailure      *failure.Failure
	notReadyRanks     []string
	partiallyReady    bool
	termination       podTermination
	uncountedFailures int32
	// hasFormerPods is the result of hasFormerPods; false for a StatefulSet.
	hasFormerPods bool
	// observedFailures is the result of countObservedFailures.
	observedFailures int32
	// completedRanks and lostRanks are the results of findCompletedRanks.
	completedRanks []int32
	lostRanks      int32
	// firstDeletedPod is the result of findFirstDeletedPod; nil if Rollcall or the Job controller
	// terminates the pods of this member. Another member may be suspended already.
	firstDeletedPod     *corev1.Pod
	hasUncountedSuccess bool
	resumedExternally   bool
	// stuckPod is a pod whose termination is overdue; nil if there is none.
	stuckPod *corev1.Pod
	// nextCheckTime is when time alone changes the observation; zero if it does not.
	nextCheckTime time.Time
	// rankUIDs and hasAllRanks are the results of listRankUIDs. rollingOut is the result of isRollingOut.
	rankUIDs                []types.UID
	hasAllRanks, rollingOut bool
	// isRankWithoutPod is true if a StatefulSet has fewer pods than ranks.
	isRankWithoutPod bool
}

// observeMember observes a member whose workload was parsed. It does not change the gang.
func (g *observedGang) observeMember(
	m member, pods []corev1.Pod, state lifecycle.State, now time.Time,
) memberObservation {
	parsed, last := m.result.Gang, m.lastStatus()
	failureContext := g.failureContext(m, pods, state)
	currentPods := excludeReplacedPods(m, pods)
	out := memberObservation{
		podCount:            len(pods),
		nonTerminatingPods:  countNonTerminating(pods),
		statefulSetComplete: g.isStatefulSetComplete(m, pods, last.Phase),
		endingGang:          g.isCompletingGang(m, pods, state) || isPastDeadline(m.Workload, now),
		firstFailure:        failure.First(currentPods, parsed.RankOffset, failureContext),
		notReadyRanks:       lifecycle.NotReadyRanks(pods, parsed.OwnMember(), parsed.RankOffset, m.trainingContainers()),
		termination: observeTermination(lifecycle.Observe(m.Workload), m.excludeResumedPods(pods, state), now,
			g.ignoresOverduePods || !m.IsSuspended()), // new pods exist already if somebody else resumed the member
		uncountedFailures:   countUncountedFailures(m.Job, pods),
		observedFailures:    countObservedFailures(m.Job, pods, failureContext),
		hasFormerPods:       m.Job != nil && hasFormerPods(pods, state.LastTransitionTime),
		hasUncountedSuccess: attempt.HasUncountedSuccess(m.Job, pods),
		rollingOut:          m.isRollingOut(),
		resumedExternally:   last.SuspendedByRollcall && !m.IsSuspended(),
	}
	if !m.isTerminating(pods, last.State) && !m.IsSuspended() {
		out.firstDeletedPod = findFirstDeletedPod(m.Workload, currentPods)
	}
	out.completedRanks, out.lostRanks = g.findCompletedRanks(m, pods, failureContext)
	out.rankUIDs, out.hasAllRanks = listRankUIDs(m.Workload, pods)
	out.isRankWithoutPod = m.StatefulSet != nil && len(pods) < configuredRanks(m.Workload)
	var readinessCheck, stuckCheck time.Time
	out.partiallyReady, readinessCheck = observePartialReadiness(pods, now)
	out.stuckPod, stuckCheck = m.findStuckPod(pods, state.Phase, now)
	out.nextCheckTime = earliestTime(readinessCheck, stuckCheck, out.termination.nextTimeout)
	return out
}

// mergeObservation adds the observation of a member to the snapshot and to the gang, and schedules the
// next pass.
func (g *observedGang) mergeObservation(m *member, observed memberObservation, snapshot *lifecycle.Snapshot) {
	g.pass.podCount += observed.podCount
	g.terminatingPods += observed.podCount - observed.nonTerminatingPods
	m.nonTerminatingPods, m.firstDeletedPod = observed.nonTerminatingPods, observed.firstDeletedPod
	m.hasUncountedSuccess = observed.hasUncountedSuccess
	if observed.statefulSetComplete {
		g.memberStates[g.memberStates.IndexOf(m.Meta().Name)].Observed.Complete = true
	}
	if observed.endingGang {
		g.memberStates[g.memberStates.IndexOf(m.Meta().Name)].Observed.Finishing = true
	}
	if pod := observed.stuckPod; pod != nil && (g.stuckPod == nil || pod.Name < g.stuckPod.Name) {
		g.stuckPod, g.blocksReplacement = pod, m.waitsForPodDeletion()
	}
	snapshot.HasPods = snapshot.HasPods || observed.podCount > 0
	snapshot.FirstFailure = failure.EarlierOf(snapshot.FirstFailure, observed.firstFailure)
	snapshot.NotReadyRanks = append(snapshot.NotReadyRanks, observed.notReadyRanks...)
	snapshot.PartiallyReady = snapshot.PartiallyReady || observed.partiallyReady
	snapshot.AllPodsTerminated = snapshot.AllPodsTerminated && observed.termination.allTerminated
	snapshot.PodsTerminating = snapshot.PodsTerminating || observed.termination.anyTerminating
	snapshot.UncountedFailures += observed.uncountedFailures
	snapshot.HasFormerPods = snapshot.HasFormerPods || observed.hasFormerPods
	snapshot.ObservedFailures += observed.observedFailures
	snapshot.LostRanks += observed.lostRanks
	snapshot.ResumedExternally = snapshot.ResumedExternally || observed.resumedExternally
	snapshot.IsRankWithoutPod = snapshot.IsRankWithoutPod || observed.isRankWithoutPod
	snapshot.RollingOut = snapshot.RollingOut || observed.rollingOut
	if !observed.nextCheckTime.IsZero() {
		g.pass.requeueAfter(observed.nextCheckTime.Sub(snapshot.Now))
	}
}

// earliestTime returns the earliest of the times that are not zero, or the zero value if all are.
func earliestTime(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}

func (g *observedGang) isStatefulSetComplete(m member, pods []corev1.Pod, lastPhase lifecycle.Phase) bool {
	i := g.memberStates.IndexOf(m.Meta().Name)
	if m.StatefulSet == nil || i < 0 {
		return false
	}
	return g.memberStates[i].IsStatefulSetComplete(pods, m.trainingContainers(), lastPhase)
}

// failureContext returns the context in which the failures of a member's pods are attributed. While
// the gang restarts, it describes the attempt that failed. state.Attempt is then already the number of
// the next attempt.
func (g *observedGang) failureContext(m member, pods []corev1.Pod, state lifecycle.State) failure.Context {
	out := failure.Context{
		Attempt:            state.Attempt,
		LastRestartTime:    state.LastRestartTime,
		AttemptStartTime:   state.AttemptStartTime,
		JobStartTime:       state.JobStartTime,
		TrainingContainers: m.trainingContainers(),
		Terminating:        g.memberStates.AnySuspended() || m.isTerminating(pods, state),
		OmitOutput:         !g.gangPolicies().FailureOutput,
	}
	if state.Phase == lifecycle.Restarting || state.Phase == lifecycle.Failed && state.FirstFailure != nil {
		out.TerminationStartTime = state.LastTransitionTime
	}
	if state.Phase == lifecycle.Restarting {
		out.Attempt, out.LastRestartTime = state.Attempt-1, time.Time{}
	}
	return out
}

// isTerminating reports whether the pods of a member are deleted because the gang in a state restarts or
// has finished, or because the member itself has finished.
func (m member) isTerminating(pods []corev1.Pod, state lifecycle.State) bool {
	observed := lifecycle.Observe(m.Workload)
	return state.Phase == lifecycle.Restarting || state.Phase.Terminal() ||
		observed.Finishing || observed.Failed || observed.Complete || mayMeetSuccessPolicy(m.Job, pods, state.Attempt)
}

// mayMeetSuccessPolicy reports whether a Job may complete by its successPolicy in an attempt. The Job
// controller deletes the other pods before it adds the condition.
func mayMeetSuccessPolicy(job *batchv1.Job, pods []corev1.Pod, attempt int32) bool {
	return job != nil && job.Spec.SuccessPolicy != nil && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded && !isOfEarlierAttempt(&pod, attempt)
	})
}

// isOfEarlierAttempt reports whether a pod was created before an attempt; false without the label.
func isOfEarlierAttempt(pod *corev1.Pod, attempt int32) bool {
	podAttempt, hasAttempt := gang.PodAttempt(pod)
	return hasAttempt && podAttempt < attempt
}

// trainingContainers returns the names of the training containers.
func (m member) trainingContainers() []string {
	var out []string
	for _, c := range m.result.Gang.Containers {
		out = append(out, c.Name)
	}
	return out
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

// observeTermination observes the termination of the pods of a workload. ignoresOverdue determines whether a pod
// whose termination is overdue prevents the next attempt.
func observeTermination(
	workload lifecycle.Observation, pods []corev1.Pod, now time.Time, ignoresOverdue bool,
) podTermination {
	out := podTermination{allTerminated: true}
	var ignoredPods int32
	for i := range pods {
		pod := &pods[i]
		switch {
		case attempt.IsPodTerminal(pod):
		case attempt.IsDeletionConfirmed(pod):
			ignoredPods++
		case attempt.IsTerminationOverdue(pod, now):
			if ignoresOverdue {
				ignoredPods++
			} else {
				out.allTerminated, out.anyTerminating = false, true
			}
		case pod.DeletionTimestamp != nil:
			out.allTerminated, out.anyTerminating = false, true
			out.nextTimeout = earliestTime(out.nextTimeout, attempt.TerminationDeadline(pod))
		default:
			out.allTerminated = false
		}
	}
	// The Job may count pods that the cache does not contain yet.
	if workload.TerminatingPods > ignoredPods {
		out.allTerminated = false
	}
	return out
}

// excludeResumedPods returns the pods of a member without those that somebody has deleted since a user or a queue
// resumed the gang. They do not terminate because of the suspension.
func (m member) excludeResumedPods(pods []corev1.Pod, state lifecycle.State) []corev1.Pod {
	isResumed := func(pod corev1.Pod) bool {
		podAttempt, hasAttempt := gang.PodAttempt(&pod)
		return hasAttempt && podAttempt >= state.Attempt
	}
	if state.Phase != lifecycle.Suspended || m.IsSuspended() || !slices.ContainsFunc(pods, isResumed) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), isResumed)
}

// countNonTerminating returns the number of pods that are not being deleted.
func countNonTerminating(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// countUncountedFailures returns the number of failed or deleted pods that are missing from
// Observation.FailedPods; 0 for a nil Job. The pods have the finalizer of the Job controller
// (kubernetes pkg/controller/job). Pods that status.uncountedTerminatedPods.failed contains are
// part of FailedPods, so the result excludes them. With backoffLimitPerIndex, the Job counts a pod
// only when it replaces the pod, which happens in the next attempt.
func countUncountedFailures(job *batchv1.Job, pods []corev1.Pod) int32 {
	if job == nil {
		return 0
	}
	var counted sets.Set[types.UID] // a search through a slice for each pod would cost the product of both sizes
	if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
		counted = sets.New(uncounted.Failed...) // part of Observation.FailedPods
	}
	var n int32
	for i := range pods {
		pod := &pods[i]
		hasFailed := pod.Status.Phase == corev1.PodFailed
		isDeleted := pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
		if (hasFailed || isDeleted) && isTracked(pod) && !counted.Has(pod.UID) {
			n++
		}
	}
	return n
}

// hasFormerPods reports whether a pod runs that was created before a time.
func hasFormerPods(pods []corev1.Pod, t time.Time) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return pod.CreationTimestamp.Time.Before(t) && pod.DeletionTimestamp == nil && !attempt.IsPodTerminal(&pod)
	})
}

// countObservedFailures returns the number of pods of a Job that failed or are being deleted in the current attempt;
// 0 for a nil Job.
func countObservedFailures(job *batchv1.Job, pods []corev1.Pod, c failure.Context) int32 {
	if job == nil {
		return 0
	}
	var n int32
	for i := range pods {
		pod := &pods[i]
		isDeleted := pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
		if (pod.Status.Phase == corev1.PodFailed || isDeleted) && !c.IsFromEarlierAttempt(pod) {
			n++
		}
	}
	return n
}

// observePartialReadiness reports whether a pod has been ready for [startingGracePeriod]. If no pod
// has, nextCheckTime is when the first ready pod will have been; zero if no pod is ready.
func observePartialReadiness(pods []corev1.Pod, now time.Time) (partiallyReady bool, nextCheckTime time.Time) {
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
				continue
			}
			due := c.LastTransitionTime.Add(startingGracePeriod)
			if !due.After(now) {
				return true, time.Time{}
			}
			nextCheckTime = earliestTime(nextCheckTime, due)
		}
	}
	return false, nextCheckTime
}

// excludeReplacedPods returns the pods whose failure counts. It excludes pods that a rollout of a
// StatefulSet or a resize deletes, because the user requested their deletion.
func excludeReplacedPods(m member, pods []corev1.Pod) []corev1.Pod {
	if m.StatefulSet != nil {
		return excludePodsOfRollout(m, pods)
	}
	isScaledDown := func(pod corev1.Pod) bool { return gang.PodIndex(&pod) >= m.Ranks() }
	if !slices.ContainsFunc(pods, isScaledDown) {
		return pods // avoids a copy in the usual case
	}
	return slices.DeleteFunc(slices.Clone(pods), isScaledDown)
}
