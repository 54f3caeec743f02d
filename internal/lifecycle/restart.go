package lifecycle

import (
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// detectFailure returns the failure for which the gang must restart or fail. It returns nil if there
// is none, and if Rollcall does not handle failures of the gang.
func (s State) detectFailure(policies gang.RestartRules, snapshot Snapshot) *failure.Failure {
	members := snapshot.Members
	switch {
	case !mayFail(policies, members):
		return nil
	case snapshot.FirstFailure.IsDisruption(), snapshot.FirstFailure.IsEviction():
		return snapshot.FirstFailure
	// The peers of a pod that is gone fail because they lost it, so the pod comes before their failures.
	case s.unobservedFailures(snapshot) > 0:
		return snapshot.newFailure(failure.ReasonUnobserved, unobservedMessage(s.unobservedFailures(snapshot)))
	case s.hasLostRanks(snapshot):
		return snapshot.newFailure(failure.ReasonRankLost, lostRanksMessage(snapshot.LostRanks))
	case s.isRankReplaced(snapshot) || s.isRankGone(snapshot):
		return snapshot.newFailure(failure.ReasonPodDeleted, replacedRankMessage)
	case s.isMemberRecreated(policies, snapshot):
		return snapshot.newFailure(failure.ReasonMemberRecreated, s.memberRecreatedMessage(members))
	case snapshot.FirstFailure != nil && s.wereMembersComplete(members) && len(members.Missing()) > 0:
		return snapshot.newFailure(failure.ReasonMemberDeleted, memberDeletedMessage(members.Missing()))
	case snapshot.FirstFailure != nil:
		return snapshot.FirstFailure
	case snapshot.Silence != "":
		return snapshot.newFailure(failure.ReasonStalled, snapshot.Silence)
	case s.isStartTimeoutExceeded(policies, snapshot):
		return snapshot.newFailure(failure.ReasonStartTimeout, startTimeoutMessage(policies.StartTimeout, snapshot))
	case s.isScheduleTimeoutExceeded(policies, snapshot):
		return snapshot.newFailure(failure.ReasonScheduleTimeout, scheduleTimeoutMessage(policies.ScheduleTimeout, snapshot))
	default:
		return nil
	}
}

// unobservedFailures returns the number of failed or deleted pods of the attempt that the Jobs count or replaced, and
// that are gone. With the pods that the Jobs will count, the counts contain all pods that exist.
func (s State) unobservedFailures(snapshot Snapshot) int32 {
	counted := snapshot.Members.FailedPods() - s.FailedPodsBaseline
	if snapshot.FirstFailure != nil {
		counted += snapshot.UncountedFailures - snapshot.ObservedFailures
	}
	return max(counted, snapshot.ReplacedPods)
}

// recountPeriod is how long after the start of a Job its controller can count a pod of the attempt before once more.
const recountPeriod = 5 * time.Second

// raiseFailedPodsBaseline raises the baseline to the failed pods that the Jobs count when a later attempt starts and
// has no pods. The Job controller can count a pod twice that is gone, and that its cache still contains. Later, the
// cache of Rollcall may not contain the pods yet.
func (s State) raiseFailedPodsBaseline(snapshot Snapshot) State {
	hasPods := snapshot.OriginalPods > 0 || snapshot.FirstFailure != nil || snapshot.Members.anyReady()
	start, isStarted := snapshot.Members.latestStart(time.Time{})
	isStarting := !isStarted || snapshot.Now.Before(start.Add(recountPeriod))
	if s.Phase == Pending && s.Attempt > 0 && !s.StartCompleted && !hasPods && isStarting {
		s.FailedPodsBaseline = max(s.FailedPodsBaseline, snapshot.Members.FailedPods())
	}
	return s
}

// mayFollowStaleCache reports whether a failure must hold for [maxStaleCacheDelay] before it counts, because the cache
// of the Jobs may be ahead of that of the pods. A Job of the first attempt may count a completed rank whose pod the
// cache does not contain yet. The Jobs may count failed pods that, by their finalizer, they have yet to count. Or they
// count some that still seem to run: these pods and those that seem to be gone are then more than the ranks. The pods
// that seem to be gone can be replacements that failed, too, and that the cache does not contain yet. Before all ranks
// were ready, nothing tells replacements from other pods.
func (s State) mayFollowStaleCache(f *failure.Failure, snapshot Snapshot) bool {
	switch {
	case f == nil:
		return false
	case f.Reason == failure.ReasonUnobserved:
		n, uncounted := s.unobservedFailures(snapshot), int32(0)
		if snapshot.FirstFailure != nil {
			uncounted = snapshot.UncountedFailures
		}
		return n > 0 && (!s.wereAllReady() || n <= uncounted || n+uncounted+snapshot.OriginalPods > snapshot.JobRanks)
	default:
		return f.Reason == failure.ReasonRankLost && s.Attempt == 0 && !s.wereAllReady()
	}
}

// hasLostRanks reports whether an attempt cannot produce all ranks. Earlier builds did not record the
// ranks that had completed while their peers ran. A finished pod may disappear with its node, so without
// the record, ranks of such an attempt do not count as lost.
func (s State) hasLostRanks(snapshot Snapshot) bool {
	return snapshot.LostRanks > 0 && (!s.wereAllReady() || s.CompletedRanks != "")
}

// wereAllReady reports whether all ranks of the current attempt were ready once.
func (s State) wereAllReady() bool { return s.Phase == Running || s.StartCompleted }

// isMemberRecreated reports whether a member was deleted and recreated after all ranks of the attempt
// were ready. Its ranks are lost for the other members, as if their pods were deleted. Before all ranks
// were ready, the other ranks still wait for their peers, and find those of the new member, unless one of
// them has failed. In a later attempt, the ranks of the new member carry the number of the first. A gang with
// a complete Job cannot restart, and the recreation of another member does not fail it.
func (s State) isMemberRecreated(policies gang.RestartRules, snapshot Snapshot) bool {
	members := snapshot.Members
	isLaterAttempt := s.Attempt > 0 && policies.RestartPolicy == gang.RestartPolicyGang
	hasLostPeers := s.wereAllReady() || isLaterAttempt || snapshot.FirstFailure != nil && s.wereMembersComplete(members)
	return hasLostPeers && s.hasNewMember(members) && len(members.Missing()) == 0 && !members.anyJobComplete()
}

// wereMembersComplete reports whether all members existed when the state was recorded.
func (s State) wereMembersComplete(members Members) bool {
	return s.wereAllReady() || len(s.MemberUIDs) == len(members)
}

// handlesFailures reports whether Rollcall reacts to the failure of a rank. With the policy pod, the
// controller of the workload does.
func handlesFailures(policies gang.RestartRules) bool {
	return policies.RestartPolicy == gang.RestartPolicyGang || policies.RestartPolicy == gang.RestartPolicyNever
}

// mayFail reports whether Rollcall reacts to failures of a gang now. A gang that is suspended or about to finish has
// none.
func mayFail(policies gang.RestartRules, members Members) bool {
	return handlesFailures(policies) && !members.AnySuspended() && !members.anyFinishing()
}

// startDeadline returns when the start timeout of the attempt expires. It returns the zero value if it does
// not run: without a timeout, after all ranks were ready or succeeded, while a member is suspended or has a result,
// and while the controller of a Job has not started the Job. A queue can resume a Job while no manager runs,
// so the timeout counts from the latest start of a Job.
func (s State) startDeadline(policies gang.RestartRules, members Members) time.Time {
	start, isStarted := members.latestStart(s.AttemptStartTime)
	if policies.StartTimeout <= 0 || !mayFail(policies, members) || !s.isStarting() || members.allReadyOrSucceeded() ||
		!isStarted || start.IsZero() {
		return time.Time{}
	}
	return start.Add(policies.StartTimeout)
}

// isStarting reports whether the ranks of the attempt were never all ready.
func (s State) isStarting() bool {
	return (s.Phase == "" || s.Phase == Pending || s.Phase == Starting) && !s.StartCompleted
}

// isStartTimeoutExceeded reports whether the ranks of the attempt were never all ready within the timeout.
func (s State) isStartTimeoutExceeded(policies gang.RestartRules, snapshot Snapshot) bool {
	return snapshot.isPast(s.startDeadline(policies, snapshot.Members))
}

// isFailedStart reports whether a failure only shows that the attempt did not start with all ranks. The
// Job controller can count a pod of the last attempt again after Rollcall has reset the completed indexes
// (kubernetes pkg/controller/job, calculateSucceededIndexes, reads the cache of that controller). A rank
// that is lost before all ranks were ready therefore belongs to the incident, or the suspension, before
// the attempt. So does a member that was created or recreated meanwhile. The first attempt follows neither.
func (s State) isFailedStart(policies gang.RestartRules, f *failure.Failure) bool {
	isIncomplete := f.Reason == failure.ReasonRankLost || f.Reason == failure.ReasonMemberRecreated
	return isIncomplete && s.Attempt > 0 && !s.wereAllReady() && handlesFailures(policies)
}

// isStartedWithoutCompletedRanks reports whether a Job was suspended and resumed after all ranks of the attempt
// were ready, no pass observed the suspension, and a rank had completed. That rank does not run again, and the
// other ranks wait for it.
func (s State) isStartedWithoutCompletedRanks(policies gang.RestartRules, snapshot Snapshot) bool {
	members := snapshot.Members
	if !mayFail(policies, members) || s.JobStartTime.IsZero() || members.anyJobComplete() {
		return false
	}
	start, isStarted := members.latestStart(time.Time{})
	return isStarted && start.After(s.JobStartTime) && snapshot.hasCompletedRank()
}

// repeatStart ends an attempt that did not start with all ranks, and starts the next attempt for the same
// incident. A queue resumes a Job before its completed indexes are reset if the webhook is not available. The
// repetitions are part of the streak, so that Rollcall and the queue do not change the Job alternately without a
// delay; see [Memory.Confirm].
func (s State) repeatStart(snapshot Snapshot, f *failure.Failure) State {
	if s.FirstFailure == nil {
		s.FirstFailure = f
	}
	s = s.endStreak(snapshot.Now)
	s.DisruptionStreak++
	return s.enterRestarting(snapshot)
}

// isStartRepeatedBy reports whether a next state repeats the start of the attempt.
func (s State) isStartRepeatedBy(next State) bool {
	isNew := next.Phase == Restarting && s.Phase != Restarting
	return isNew && next.Restarts == s.Restarts && next.Disruptions == s.Disruptions
}

// remainingRepeatBackoff returns the delay before a next state that repeats the start of the attempt; 0 if the
// back-off has elapsed, and for any other state.
func (s State) remainingRepeatBackoff(next State, now time.Time) time.Duration {
	if !s.isStartRepeatedBy(next) {
		return 0
	}
	s.NextRestartTime = s.LastRestartTime.Add(Backoff(s.DisruptionStreak))
	return s.RemainingBackoff(now)
}

// handleFailure restarts the gang if a restart is possible, and fails it otherwise.
func (s State) handleFailure(policies gang.RestartRules, snapshot Snapshot, f *failure.Failure) State {
	s.FirstFailure = f
	if !s.canRestart(policies, snapshot.Members, f) {
		return s.transitionTo(Failed, snapshot)
	}
	s = s.endStreak(snapshot.Now).countIncident(1).enterRestarting(snapshot)
	s.NextRestartTime = s.LastRestartTime.Add(s.backoff())
	return s
}

// enterRestarting moves to the phase Restarting without a back-off.
func (s State) enterRestarting(snapshot Snapshot) State {
	s = s.transitionTo(Restarting, snapshot)
	s.Attempt, s.StartCompleted = s.Attempt+1, false
	s.LastRestartTime, s.NextRestartTime = s.LastTransitionTime, s.LastTransitionTime
	return s
}

// countIncident adds n to the count of the kind of incident to which the first failure belongs.
func (s State) countIncident(n int32) State {
	if s.FirstFailure.IsDisruption() {
		s.Disruptions, s.DisruptionStreak = s.Disruptions+n, max(s.DisruptionStreak+n, 0)
		if s.FirstFailure.IsRefusal() {
			s.Refusals = max(s.Refusals+n, 0)
		}
	} else {
		s.Restarts += n
	}
	return s
}

// incidents returns the number of restarts after incidents of the kind of the first failure.
func (s State) incidents() int32 {
	if s.FirstFailure.IsDisruption() {
		return s.Disruptions
	}
	return s.Restarts
}

// earlierFailure returns the first failure of the state, or that of the snapshot if it came before. The time of a
// disruption that nobody observed is not known, so nothing came before: the peers of its rank failed afterward, and
// are reported first or, on a lost node, after that node is reported. The same holds for a deleted member.
func (s State) earlierFailure(snapshot Snapshot) *failure.Failure {
	if s.FirstFailure.IsDisruption() && (s.FirstFailure.Rank < 0 || len(snapshot.Members.Missing()) > 0) {
		return s.FirstFailure
	}
	return failure.EarlierOf(s.FirstFailure, snapshot.FirstFailure)
}

// replaceFirstFailure replaces the first failure of a restarting gang by an earlier failure. If one of
// them is a disruption and the other is not, the incident counts as the earlier. It returns false if the
// gang may not restart after the earlier.
func (s State) replaceFirstFailure(policies gang.RestartRules, f *failure.Failure) (State, bool) {
	isSameKind := f.IsDisruption() == s.FirstFailure.IsDisruption() &&
		f.IsRefusal() == s.FirstFailure.IsRefusal()
	if isSameKind || s.incidents() == 0 {
		s.FirstFailure = f
		return s, true
	}
	s = s.countIncident(-1)
	s.FirstFailure = f
	if s.isLimitReached(policies, f) {
		return s, false
	}
	s = s.countIncident(1)
	s.NextRestartTime = s.LastRestartTime.Add(s.backoff())
	return s, true
}

// canRestart reports whether the gang can restart after a failure. Ranks that succeeded run
// again, as long as their Job is not complete: Kubernetes never restarts a complete Job.
func (s State) canRestart(policies gang.RestartRules, members Members, f *failure.Failure) bool {
	return policies.RestartPolicy != gang.RestartPolicyNever && !s.isLimitReached(policies, f) &&
		!isNonRetriable(policies, f) && !members.anyJobComplete()
}

// isLimitReached reports whether the gang may not restart once more after failures of the kind of f.
func (s State) isLimitReached(policies gang.RestartRules, f *failure.Failure) bool {
	if f.IsRefusal() && s.Refusals >= MaxRefusals {
		return true
	}
	if f.IsDisruption() {
		return policies.MaxDisruptions >= 0 && s.Disruptions >= policies.MaxDisruptions
	}
	return s.Restarts >= policies.MaxRestarts
}

// MaxRefusals is the maximum number of restarts after refusals of nodes until all ranks are ready. A
// check that fails on each node does not restart the gang indefinitely.
const MaxRefusals = 3

// isNonRetriable reports whether the exit code of a failure, which may be nil, fails the gang. Only
// exit codes of training containers count. An init container that could not fetch its data may
// succeed the next time. A rank that lost a peer, or that may have been terminated, is probably not
// the first failure, which the kubelet may report later. See docs/adr/0006-restart-limits.md.
func isNonRetriable(policies gang.RestartRules, f *failure.Failure) bool {
	if f.IsFailedPreflight() {
		return f.ExitCode == gang.PreflightFatal
	}
	if f == nil || f.Container == "" || f.Auxiliary || f.LostPeer || f.MaybeTerminated {
		return false
	}
	if f.Reason == failure.ReasonStalled || f.IsLostContainer() { // the exit code is not that of the program
		return false
	}
	return policies.NonRetriableExitCodes.Has(f.ExitCode)
}

// The back-off doubles with each restart, as the Job controller's back-off for pods does
// (kubernetes pkg/controller/job, DefaultJobPodFailureBackOff). Its maximum is half of that
// controller's maximum, because a waiting gang occupies more nodes than a pod.
const (
	initialBackoff = 10 * time.Second
	maxBackoff     = 5 * time.Minute
)

// Backoff returns how long a gang waits before its nth restart, counted from 1. The first restart has
// no delay, because most failures are caused by a node and not by the program.
func Backoff(n int32) time.Duration {
	if n <= 1 {
		return 0
	}
	d := initialBackoff
	for range n - 2 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// backoff returns the back-off of a restart that was decided for the first failure. Disruptions have a
// back-off of their own, because a gang on spot nodes may be disrupted often, and still make progress.
func (s State) backoff() time.Duration {
	if s.FirstFailure.IsDisruption() {
		return Backoff(s.DisruptionStreak)
	}
	return Backoff(s.Restarts)
}

// endStreak ends the streak of disruptions if the attempt ran for the maximum back-off.
func (s State) endStreak(now time.Time) State {
	if s.ranForMaxBackoff(now) {
		s.DisruptionStreak = 0
	}
	return s
}

// ranForMaxBackoff reports whether all ranks of the attempt were ready at least the maximum back-off ago.
func (s State) ranForMaxBackoff(now time.Time) bool {
	return s.wereAllReady() && now.Sub(s.readyTime()) >= maxBackoff
}
