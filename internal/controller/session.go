package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/internal/lifecycle"
)

// sessions keeps what the reconciler remembers between two passes: facts that it has no permission to read, and facts
// that are not worth a write. A manager works without them after a restart. The zero value is empty and ready for use.
// Its methods are safe for concurrent use.
type sessions struct {
	mu        sync.Mutex
	byRequest map[Request]*session
	// services contains Services that the cache does not contain; see [Reconciler.findService].
	services map[client.ObjectKey]recentService
}

// session belongs to the gangs of one request. Only one pass of them runs at a time, so the fields need no lock, except
// those of the last pass and judgments: they are read outside of passes, and sessions guards them.
type session struct {
	// lastPassTime is the time of the last pass, and lastPodCount the number of pods that it read; see
	// [sessions.remainingDelay].
	lastPassTime time.Time
	lastPodCount int
	// judgments contains what the policy says about each gang, by the UID of the primary member.
	judgments map[types.UID]judgment
	// missingSince is when a member was first observed as missing; zero if none is missing.
	missingSince time.Time
	keyPair      keyPairRetry
	podGroup     podGroupSync
	hostOrder    hostOrderSync
	// queueMessageTime is when the words of the queue were last reported.
	queueMessageTime time.Time
	// writtenVersions contains the resource version of each member over which its status was last
	// written. If the cache still contains that version, it does not contain the write.
	writtenVersions map[types.UID]string
	// hostReportReads is the number of times that the pod of the launcher was read for its host report.
	hostReportReads int
	// lastStuckReportTime is when a stuck pod was reported last.
	lastStuckReportTime time.Time
	// stallReportTime is when stalled ranks were reported last.
	stallReportTime time.Time
	// rankLog is what the log of rank 0 showed.
	rankLog rankLog
	// terminatingPods is the number of terminating pods in the last pass, and lastTerminationTime when this number
	// changed last.
	terminatingPods     int
	lastTerminationTime time.Time
	// isolationTime is when the Service of a restarting gang was first observed to select only the next attempt;
	// zero if it does not.
	isolationTime time.Time
	// memory is what decisions need.
	memory lifecycle.Memory
	// rejection is the last rejected child of the gang.
	rejection childRejection
	// resizes contains the last request for each StatefulSet that was resized and not injected again.
	resizes map[types.UID]resizeRequest
	// podsToUntrack contains by member the pods whose patches failed; see untrackDeletedPods.
	podsToUntrack map[types.UID][]string
	// reports contains the facts that this process reported by an Event only.
	reports map[string]bool
	// reportDigests contains the digests of the reports of the policy that this process wrote, by the UID of the primary
	// member. The digest is empty if there is no report.
	reportDigests map[types.UID]string
}

// forRequest returns the session of a gang. The caller may change it.
func (s *sessions) forRequest(req Request) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRequest[req] == nil {
		put(&s.byRequest, req, &session{})
	}
	return s.byRequest[req]
}

// forgetGang drops the session of a gang that no longer exists, except its reports if they remain.
func (s *sessions) forgetGang(req Request, reportsRemain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.byRequest[req]
	delete(s.byRequest, req)
	if reportsRemain && last != nil {
		s.byRequest[req] = &session{reportDigests: last.reportDigests}
	}
}

// put sets a value of a map, which may be nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// hasStaleMember reports whether the cache does not contain the last write to a member yet. The state of the
// gang, and what its members show, are then those before the write.
func (g *observedGang) hasStaleMember() bool {
	return slices.ContainsFunc(g.Members, func(m member) bool {
		return g.pass.session.writtenVersions[m.Meta().UID] == m.Meta().ResourceVersion && m.Meta().ResourceVersion != ""
	})
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
