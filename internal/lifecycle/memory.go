package lifecycle

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// Memory is what a process remembers of a gang between two passes to decide about the gang: facts that are not
// worth a write. A process that starts, or takes over, works without them. The zero value is empty and ready for use.
type Memory struct {
	// completedMembers contains the finish times of the members that this process observed to complete, and
	// observedMembers the UIDs of the members at that time.
	completedMembers map[string]time.Time
	observedMembers  []types.UID
	completed        completedRanks
	// restartRules are those of the member with rank 0 when this process observed it last.
	restartRules *gang.RestartRules
	// unhealthyPods contains since when this process has observed pods with an unhealthy device.
	unhealthyPods map[types.UID]time.Time
	// failureDecisionTime is when a pass first decided to fail the gang, and staleCacheTime when a pass first decided
	// because of a failure that nobody observed; see [Memory.Confirm].
	failureDecisionTime, staleCacheTime time.Time
	// observedFailures is that number of the last snapshot.
	observedFailures int32
	// failedPodsBeforeResume is the number of failed pods that the Jobs of a suspended gang counted last when no pod of
	// its attempt was left; nil if this process has not observed that.
	failedPodsBeforeResume *int32
	// replacedPods contains the pods that terminate because of a rollout or a resize, also if its user takes it back.
	replacedPods sets.Set[types.UID]
	// decision is the last decision to restart or fail the gang.
	decision failureDecision
}

// RestoreCompleted returns the members with those that this process observed to complete and that were deleted before
// a status recorded them. They count only while a member of that time exists.
func (m *Memory) RestoreCompleted(members Members) Members {
	uids := members.uids()
	if m.observedAny(uids) {
		members = members.RestoreCompleted(m.completedMembers)
	}
	m.completedMembers, m.observedMembers = members.CompletedJobs(), uids
	return members
}

// observedAny reports whether this process observed one of the members with the given UIDs in the last pass.
func (m *Memory) observedAny(uids []types.UID) bool {
	return slices.ContainsFunc(uids, func(uid types.UID) bool { return slices.Contains(m.observedMembers, uid) })
}

// RestoreRules is like [State.RestoreRules] for the rules that this process observed, if the member with rank 0 was
// deleted before a status recorded them. uids are those of the members that exist.
func (m *Memory) RestoreRules(g gang.Gang, uids []types.UID) gang.Gang {
	switch {
	case g.RankOffset == 0:
		rules := g.RestartRules
		m.restartRules = &rules
	case m.restartRules != nil && m.observedAny(uids):
		g.RestartRules = *m.restartRules
	}
	return g
}

// recordFailedPodsBeforeResume records the number of failed pods while a gang in the phase Suspended has no pods, and
// until all of its members are resumed. It returns [Snapshot.FailedPodsBeforeResume].
func (m *Memory) recordFailedPodsBeforeResume(s State, snapshot Snapshot) *int32 {
	switch {
	case s.Phase != Suspended:
		m.failedPodsBeforeResume = nil
	case snapshot.AllPodsTerminated && !snapshot.HasPods,
		m.failedPodsBeforeResume != nil && snapshot.Members.anySuspendedExternally():
		m.failedPodsBeforeResume = ptr.To(snapshot.Members.FailedPods())
	}
	return m.failedPodsBeforeResume
}

// failureDecision is a decision because of a failure. Its write may be rejected for a long time, and what it was
// decided by is gone then.
type failureDecision struct {
	attempt          int32
	attemptStartTime time.Time
	firstFailure     *failure.Failure
}

// RecordDecision records a decision that is about to be written, except a start that is repeated for an earlier
// incident. What shows that a rank is lost remains until the next attempt, or was not true.
func (m *Memory) RecordDecision(last, next State) {
	isRestart := next.Phase == Restarting && !last.isStartRepeatedBy(next)
	if last.Phase.Active() && (isRestart || next.Phase == Failed) {
		m.decision = failureDecision{last.Attempt, last.AttemptStartTime, next.FirstFailure}
	}
}

// unwrittenDisruption returns the disruption or the eviction for which the gang was to restart or fail in a state, and
// whose write was rejected; nil if there is none. A StatefulSet replaces an evicted pod, so nothing shows it any more.
func (d failureDecision) unwrittenDisruption(s State) *failure.Failure {
	isSameAttempt := d.attempt == s.Attempt && d.attemptStartTime.Equal(s.AttemptStartTime)
	if !isSameAttempt || !s.Phase.Active() || !d.firstFailure.IsDisruption() && !d.firstFailure.IsEviction() {
		return nil
	}
	return d.firstFailure
}

const (
	// completionGracePeriod is how long a gang with a member that determines completion does not fail because
	// of a rank. The other ranks lose their peer when such a member succeeds, and its exit may be reported last. A
	// disruption follows no success, and a drained rank that exits with code 0 must not count as complete meanwhile.
	completionGracePeriod = 3 * time.Second
	// StaleCacheDelay is the delay before a pass is repeated whose cache was stale.
	StaleCacheDelay = time.Second
	// maxStaleCacheDelay is how long a pass waits for pods that the cache may not contain, and for failed pods that
	// seem to run or to be uncounted. The wait starts again when the cache contains more failed pods.
	maxStaleCacheDelay = 30 * time.Second
)

// Confirm returns what has to happen before the next state of a gang may be written: the delay before the pass is
// repeated, or whether all members must be read from the API server and be those of the cache. Pods and workloads
// arrive by different watches. A suspension, whose pods were deleted before the cache contained it, must neither
// fail nor restart a gang. A Job counts a pod before the pod disappears, so the counts of a stale cache hide why
// the peers of the pod fail. The start of an attempt is repeated with a back-off.
func (m *Memory) Confirm(last, next State, snapshot Snapshot) (delay time.Duration, mustReadMembers bool) {
	isNew := next.Phase != last.Phase
	isDecision := isNew && (next.Phase == Restarting || next.Phase == Failed)
	if delay := last.remainingRepeatBackoff(next, snapshot.Now); delay > 0 {
		return delay, false
	}
	isStale := isDecision && last.mayFollowStaleCache(next.FirstFailure, snapshot)
	if snapshot.ObservedFailures > m.observedFailures { // the cache contains more of the pods that the Jobs count
		m.staleCacheTime = time.Time{}
	}
	m.observedFailures = snapshot.ObservedFailures
	if delay := RemainingDelay(&m.staleCacheTime, isStale, maxStaleCacheDelay, snapshot.Now); delay > 0 {
		return delay, false
	}
	isFailing := isDecision && next.Phase == Failed && snapshot.Members.Phase(last.Phase) != Failed
	mayFollowSuccess := isFailing && !next.FirstFailure.IsDisruption()
	delay = RemainingDelay(&m.failureDecisionTime, mayFollowSuccess, completionGracePeriod, snapshot.Now)
	if delay > 0 && slices.ContainsFunc(snapshot.Members, MemberState.mayCompleteGang) {
		return delay, false
	}
	return 0, isFailing || isNew && next.Phase == Restarting
}

// RemainingDelay returns how long a condition still has to hold until it has held for a period; 0 if it does not
// hold. since is when it started to hold.
func RemainingDelay(since *time.Time, holds bool, period time.Duration, now time.Time) time.Duration {
	switch {
	case !holds:
		*since = time.Time{}
		return 0
	case since.IsZero():
		*since = now
	}
	return max(0, since.Add(period).Sub(now))
}

// mayCompleteGang reports whether a member that determines completion has not finished.
func (s MemberState) mayCompleteGang() bool {
	return s.DeterminesCompletion && s.Exists && !s.Observed.HasResult()
}

// unhealthyPeriod is how long a device must be unhealthy before it is a failure. Device plugins report errors from
// which a device recovers.
const unhealthyPeriod = 10 * time.Second

// observeDevices returns since when pods have had an unhealthy device, if they have had it for [unhealthyPeriod].
// nextCheckTime is when the next pod will; zero if no other pod has such a device. A kubelet does not report a time, so
// the period starts when this process observes the device.
func (m *Memory) observeDevices(e Evidence) (unhealthy map[types.UID]time.Time, nextCheckTime time.Time) {
	observed := map[types.UID]time.Time{}
	unhealthy = map[types.UID]time.Time{}
	for _, w := range e.Workloads {
		names := trainingContainers(w.Gang)
		for i := range w.Pods {
			p := &w.Pods[i]
			if !failure.HasUnhealthyDevice(p, names) {
				continue
			}
			since, isKnown := m.unhealthyPods[p.UID]
			if !isKnown {
				since = e.Now
			}
			observed[p.UID] = since
			if due := since.Add(unhealthyPeriod); due.After(e.Now) {
				nextCheckTime = earliestTime(nextCheckTime, due)
			} else {
				unhealthy[p.UID] = since
			}
		}
	}
	m.unhealthyPods = observed
	return unhealthy, nextCheckTime
}

func trainingContainers(g gang.Gang) []string {
	var out []string
	for _, c := range g.Containers {
		out = append(out, c.Name)
	}
	return out
}
