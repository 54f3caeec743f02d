package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// sessions keeps what the reconciler knows about gangs between two passes: facts that
// it has no permission to read, and facts that are not worth a write. A manager works without them
// after a restart. The zero value is empty and ready for use. Its methods are safe for concurrent use.
type sessions struct {
	mu        sync.Mutex
	byRequest map[Request]*session
}

// session belongs to one gang. Only one pass of a gang runs at a time, so it needs no lock.
type session struct {
	// missingSince is when a member was first observed as missing; zero if none is missing.
	missingSince time.Time
	keyPair      keyPairRetry
	// writtenVersions contains the resource version of each member over which its status was last
	// written. If the cache still contains that version, it does not contain the write.
	writtenVersions map[types.UID]string
	// hostReportReads is the number of times that the pod of the launcher was read for its host report.
	hostReportReads int
	// lastStuckReportTime is when a stuck pod was reported last.
	lastStuckReportTime time.Time
	// terminatingPods is the number of terminating pods in the last pass, and lastTerminationTime when this number
	// changed last.
	terminatingPods     int
	lastTerminationTime time.Time
	// isolationTime is when the Service of a restarting gang was first observed to select only the next attempt;
	// zero if it does not.
	isolationTime time.Time
	// completedMembers contains the finish times of the members that this process observed to complete, and
	// observedMembers the UIDs of the members at that time.
	completedMembers map[string]time.Time
	observedMembers  []types.UID
	// rejection is the last rejected child of the gang.
	rejection childRejection
	// resizes contains the last request for each StatefulSet that was resized and not injected again.
	resizes map[types.UID]resizeRequest
	// podsToUntrack contains by member the pod whose patch failed; see untrackDeletedPod.
	podsToUntrack map[types.UID]string
	completed     completedRanks
	// failureDecisionTime is when a pass first decided to fail the gang; see confirmDecision.
	failureDecisionTime time.Time
	// unobservedTime is when a pass first decided because of a failure that nobody observed; see confirmDecision.
	unobservedTime time.Time
	// decision is the last decision to restart or fail the gang.
	decision failureDecision
	// reports contains the facts that this process reported by an Event only.
	reports map[string]bool
	// reportDigests contains the digests of the reports of the policy that this process wrote, by the UID of the primary
	// member. The digest is empty if there is no report.
	reportDigests map[types.UID]string
}

// failureDecision is a decision because of a failure. Its write may be rejected for a long time, and what it was
// decided by is gone then.
type failureDecision struct {
	attempt          int32
	attemptStartTime time.Time
	firstFailure     *failure.Failure
}

// recordDecision records a decision that is about to be written, except a start that is repeated for an earlier
// incident. What shows that a rank is lost remains until the next attempt, or was not true.
func (s *session) recordDecision(last, next lifecycle.State) {
	isRepeatedStart := next.Restarts == last.Restarts && next.Disruptions == last.Disruptions
	isRestart := next.Phase == lifecycle.Restarting && !isRepeatedStart
	if isActive(last.Phase) && (isRestart || next.Phase == lifecycle.Failed) {
		s.decision = failureDecision{last.Attempt, last.AttemptStartTime, next.FirstFailure}
	}
}

// undoneDisruption returns the disruption for which the gang was to restart or fail in a state, and whose write
// was rejected; nil if there is none.
func (s *session) undoneDisruption(state lifecycle.State) *failure.Failure {
	d := s.decision
	isSameAttempt := d.attempt == state.Attempt && d.attemptStartTime.Equal(state.AttemptStartTime)
	if !isSameAttempt || !isActive(state.Phase) || !d.firstFailure.IsDisruption() {
		return nil
	}
	return d.firstFailure
}

// forRequest returns the session of a gang. The caller may change it.
func (s *sessions) forRequest(req Request) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRequest == nil {
		s.byRequest = map[Request]*session{}
	}
	if s.byRequest[req] == nil {
		s.byRequest[req] = &session{}
	}
	return s.byRequest[req]
}

// forgetGang drops the session of a gang that no longer exists.
func (s *sessions) forgetGang(req Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byRequest, req)
}

// hasStaleMember reports whether the cache does not contain the last write to a member yet. The state of the
// gang, and what its members show, are then those before the write.
func (g *observedGang) hasStaleMember(s *session) bool {
	return slices.ContainsFunc(g.members, func(m member) bool {
		return s.writtenVersions[m.Meta().UID] == m.Meta().ResourceVersion && m.Meta().ResourceVersion != ""
	})
}

// recordWrite records that the status of a member was written over a resource version.
func (s *session) recordWrite(uid types.UID, version string) {
	if s.writtenVersions == nil {
		s.writtenVersions = map[types.UID]string{}
	}
	s.writtenVersions[uid] = version
}

// recordPodToUntrack records that the patch that untracks a pod of a member is repeated.
func (s *session) recordPodToUntrack(uid types.UID, pod string) {
	if s.podsToUntrack == nil {
		s.podsToUntrack = map[types.UID]string{}
	}
	s.podsToUntrack[uid] = pod
}

// recordTerminatingPods records the number of terminating pods of a pass. It returns how long this number has been
// the same. A number that follows 0 is not a change: the pods are new, or another process has observed them before.
func (s *session) recordTerminatingPods(pods int, now time.Time) time.Duration {
	if s.terminatingPods != 0 && s.terminatingPods != pods {
		s.lastTerminationTime = now
	}
	s.terminatingPods = pods
	return now.Sub(s.lastTerminationTime)
}

// maxReports limits the number of facts that a session remembers. Beyond it, a fact may be reported
// again, and the Events API merges repeated Events.
const maxReports = 100

// recordReport records that a fact is reported now. It returns false if it was reported before.
func (s *session) recordReport(fact string) bool {
	if s.reports[fact] {
		return false
	}
	if s.reports == nil || len(s.reports) >= maxReports {
		s.reports = map[string]bool{}
	}
	s.reports[fact] = true
	return true
}

// retryInterval returns the delay before the next attempt of an operation for a gang of an age. The
// delay grows with the age, from 2 seconds to 5 minutes, because an obstacle that has lasted for an
// hour is unlikely to disappear within seconds.
func retryInterval(age time.Duration) time.Duration {
	return min(max(age/4, 2*time.Second), 5*time.Minute)
}
