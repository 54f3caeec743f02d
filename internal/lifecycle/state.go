package lifecycle

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// State is the state of a gang. [Status] stores it on each member, and nothing else is stored. A
// manager that takes over reads from the state what was decided and what is left to do.
type State struct {
	// Phase is the phase of the gang. The zero value means that no manager has reconciled it.
	Phase Phase `json:"phase,omitempty"`
	// LastTransitionTime is when the gang entered the phase, to the second.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Restarts counts the restarts after failures, and Disruptions those after disruptions; see
	// [failure.Failure.IsDisruption]. Both have a limit, and neither identifies the pods of an attempt; see Attempt.
	Restarts    int32 `json:"restarts"`
	Disruptions int32 `json:"disruptions,omitempty"`
	// LastRestartTime is when the last restart was decided; zero if there was none.
	LastRestartTime time.Time `json:"lastRestartTime,omitzero"`
	// NextRestartTime is the end of the back-off of a restarting gang; zero in other phases.
	NextRestartTime time.Time `json:"nextRestartTime,omitzero"`
	// FirstFailure is the failure that caused the last restart or failed the gang. It is nil if there
	// was none, and if the workload's own controller failed the gang without a failed pod.
	FirstFailure *failure.Failure `json:"firstFailure,omitempty"`
	// FailedNodes contains the nodes on which ranks failed first, in the order of their last failures. It is empty
	// unless the gang avoids nodes.
	FailedNodes []FailedNode `json:"failedNodes,omitempty"`
	// Seconds contains how long the gang did what, until LastTransitionTime.
	Seconds Seconds `json:"seconds,omitzero"`
	// Bookkeeping is not meant for users and may change in any release.
	Bookkeeping `json:"internal,omitzero"`
}

// MemberNodes is what Rollcall changed in the nodes that the pod template of a member selects. Like
// [Bookkeeping.SuspendedByRollcall], it describes only the member that carries the status.
type MemberNodes struct {
	// ExcludedNodes contains the nodes that the pod template of the member excludes.
	ExcludedNodes []string `json:"excludedNodes,omitempty"`
	// SuspectNodes contains the nodes to which the pod template of the member prefers others; see [NodeLedger].
	SuspectNodes []string `json:"suspectNodes,omitempty"`
	// QueueNodes is what the admission by a queue added to the pod template of the member.
	QueueNodes gang.QueueNodes `json:"queueNodes,omitzero"`
}

// RemoveAvoidance removes from the pod template of a workload what makes its pods avoid nodes, or prefer other nodes.
func (n MemberNodes) RemoveAvoidance(w gang.Workload) {
	w.ReplaceExcludedNodes(n.ExcludedNodes, nil)
	w.ReplaceSuspectNodes(n.SuspectNodes, nil)
}

// Bookkeeping is the part of a state that only Rollcall reads.
type Bookkeeping struct {
	// Attempt is the number of the current attempt, which is the number on the label of its pods. The
	// first attempt has the number 0. From the decision to restart, or from the suspension by a user or a
	// queue, until the ranks are resumed, it is the number of the next attempt.
	Attempt int32 `json:"attempt,omitempty"`
	// DisruptionStreak is the number of disruptions and of repeated starts since an attempt ran for the maximum
	// back-off. It determines the back-off of the next disruption and of the next repeated start.
	DisruptionStreak int32 `json:"disruptionStreak,omitempty"`
	// Refusals is the number of times that a node refused a rank since all ranks were ready, by a preflight check
	// or its kubelet; see [MaxRefusals].
	Refusals int32 `json:"failedPreflights,omitempty"`
	// AttemptStartTime is when the ranks of the current attempt were resumed. The zero value stands
	// for the creation of the workload.
	AttemptStartTime time.Time `json:"attemptStartTime,omitzero"`
	// StartCompleted is true if all ranks of the current attempt were ready once and at least one is
	// not ready now. The start timeout no longer applies then.
	StartCompleted bool `json:"startCompleted,omitempty"`
	// ReadyTime is when all ranks of the current attempt were ready first, to the second, and JobRanks is the number of
	// ranks of Jobs at that time. If Jobs were started or resized since, it is when all ranks were ready after that.
	// Both are zero if they were not, or if an earlier build recorded that.
	ReadyTime time.Time `json:"readyTime,omitzero"`
	JobRanks  int32     `json:"jobRanks,omitempty"`
	// FollowsRestart is true in an attempt that follows a restart, and not the suspension of a gang that ran.
	FollowsRestart bool `json:"followsRestart,omitempty"`
	// JobStartTime is the latest start time of the Jobs when all ranks were ready; see [Observation.StartTime].
	// Zero if the ranks of the attempt were not all ready yet.
	JobStartTime time.Time `json:"jobStartTime,omitzero"`
	// FailedPodsBaseline is the number of failed pods that the workloads count and that are not of the current
	// attempt. A higher count is a failure, whether a pod was observed or not.
	FailedPodsBaseline int32 `json:"failedPodsBaseline,omitempty"`
	// StatefulSetPods identifies the pods of all StatefulSets while the gang runs; see
	// [Snapshot.StatefulSetPods]. It is empty if the gang has no StatefulSet.
	StatefulSetPods string `json:"statefulSetPods,omitempty"`
	// CompletedRanks contains the ranks that completed in the current attempt and that nobody had deleted
	// before; see [Snapshot.CompletedRanks]. It is empty if they are not known.
	CompletedRanks string `json:"completedRanks,omitempty"`
	// CompletedMembers contains by workload the finish times of the Jobs that completed in a gang of several
	// workloads that has not finished. A Job with a time to live may be deleted before its gang finishes.
	CompletedMembers map[string]time.Time `json:"completedMembers,omitempty"`
	// RestartRules are those of the member with rank 0, while CompletedMembers is not empty. The Job of that member
	// may be deleted, and the other members need not repeat its annotations.
	RestartRules *gang.RestartRules `json:"restartRules,omitempty"`
	// SuspendedByRollcall is true on a member that Rollcall has suspended and that nobody else has
	// suspended. It describes only the member that carries the status, not the gang, so
	// [gang.AnnotationSuspendedBy] contains it for everybody else. The field remains for one release: earlier builds
	// read and write only the field.
	SuspendedByRollcall bool `json:"suspendedByRollcall,omitempty"`
	MemberNodes
	// MemberUIDs contains the UIDs of the members, in the order of their ranks, and then those of deleted
	// members. It is the identity of the gang: a workload with the same name and another UID is another
	// workload. It is empty if no status was written since the members were created.
	MemberUIDs []types.UID `json:"memberUIDs,omitempty"`
}

// podAttempt returns the number of the attempt whose failures count. While a gang restarts, that is the attempt that
// failed, and Attempt is the number of the next attempt.
func (s State) podAttempt() int32 {
	if s.Phase == Restarting {
		return s.Attempt - 1
	}
	return s.Attempt
}

// Next returns the state of the gang after a snapshot. It is a pure function, and a second call with
// a snapshot of the same cluster does not change the state. The only exception is a restart that finds nothing to
// terminate, which the second call completes.
func (s State) Next(policies gang.RestartRules, snapshot Snapshot) State {
	if s.hasNewMember(snapshot.Members) {
		s = s.admitNewMembers(snapshot)
	}
	s = s.raiseFailedPodsBaseline(snapshot)
	next := s.nextState(policies, snapshot)
	next.MemberUIDs = s.recordedUIDs(snapshot.Members)
	next.CompletedRanks = s.completedRanksToRecord(next, policies, snapshot)
	next.CompletedMembers, next.RestartRules = nil, nil
	if !next.Phase.Terminal() {
		next.CompletedMembers = snapshot.Members.CompletedJobs()
	}
	if len(next.CompletedMembers) > 0 {
		next.RestartRules = &policies
	}
	allRunAgain := !next.JobStartTime.IsZero() && next.CompletedRanks == NoRanks
	if start, isStarted := snapshot.Members.latestStart(time.Time{}); isStarted && (next.Phase == Running || allRunAgain) {
		next.JobStartTime = start
	}
	return next.recordReadyTime(s.Phase, snapshot).recordStatefulSetPods(snapshot)
}

// recordedUIDs returns the UIDs of the members to record. A missing member keeps its UID, so that the state shows
// whether it existed.
func (s State) recordedUIDs(members Members) []types.UID {
	out := members.uids()
	if len(members.Missing()) == 0 {
		return out
	}
	for _, uid := range s.MemberUIDs {
		if !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	if len(out) > len(members) {
		return members.uids()
	}
	return out
}

// hasNewMember reports whether the gang has a member that the state does not record, because it was
// created or recreated since.
func (s State) hasNewMember(members Members) bool {
	return len(s.MemberUIDs) > 0 && slices.ContainsFunc(members, s.isNewMember)
}

func (s State) isNewMember(m MemberState) bool {
	return m.Exists && m.Observed.UID != "" && !slices.Contains(s.MemberUIDs, m.Observed.UID)
}

// admitNewMembers prepares the state for members that it does not record. In a gang that has finished,
// a new member starts a new run. In all other phases, the failed pods that a new member counts belong
// to the current attempt, and those of a deleted member are not counted any more.
func (s State) admitNewMembers(snapshot Snapshot) State {
	if s.Phase.Terminal() {
		return State{Bookkeeping: Bookkeeping{AttemptStartTime: snapshot.statusTime()}}
	}
	remaining := slices.DeleteFunc(slices.Clone(snapshot.Members), s.isNewMember)
	s.FailedPodsBaseline = min(s.FailedPodsBaseline, remaining.FailedPods())
	return s
}

func (s State) nextState(policies gang.RestartRules, snapshot Snapshot) State {
	if s.Phase.Terminal() {
		return s.fromTerminal(policies, snapshot)
	}
	if phase := snapshot.Members.terminalPhase(s.Phase); phase != "" {
		return s.enterTerminalPhase(phase, snapshot)
	}
	switch s.Phase {
	case Restarting:
		return s.fromRestarting(policies, snapshot)
	case Suspended:
		return s.fromSuspended(policies, snapshot)
	default:
		return s.fromActive(policies, snapshot)
	}
}

// fromTerminal returns the next state of a gang in a terminal phase. The gang stays in the phase
// unless its user starts it again.
func (s State) fromTerminal(policies gang.RestartRules, snapshot Snapshot) State {
	if isScaledUpAgain(snapshot) {
		startedAgain := State{Bookkeeping: Bookkeeping{AttemptStartTime: snapshot.statusTime()}}
		snapshot.FirstFailure = nil // a failure of the gang that finished
		return startedAgain.fromActive(policies, snapshot)
	}
	if s.isFailedByRollcall() {
		s.FirstFailure = failure.EarlierOf(s.FirstFailure, snapshot.FirstFailure)
		return s
	}
	if phase := snapshot.Members.terminalPhase(s.Phase); phase != "" {
		return s.enterTerminalPhase(phase, snapshot)
	}
	// The user recreated the member that succeeded or failed.
	return s.fromActive(policies, snapshot)
}

// isScaledUpAgain reports whether a user scaled up a StatefulSet that Rollcall had scaled to 0 when
// its gang finished. The StatefulSet starts a new gang.
func isScaledUpAgain(snapshot Snapshot) bool {
	return snapshot.ResumedExternally && snapshot.Members.terminalPhase("") == ""
}

// isFailedByRollcall reports whether Rollcall, and not the controller of a workload, failed the gang.
// The status is then the only record of the decision.
func (s State) isFailedByRollcall() bool { return s.Phase == Failed && s.FirstFailure != nil }

// fromRestarting returns the next state of a gang that is restarting. The gang starts its next
// attempt when its pods have terminated and the back-off has elapsed.
func (s State) fromRestarting(policies gang.RestartRules, snapshot Snapshot) State {
	// The kubelets do not report failures in the order in which the ranks failed.
	s, isPermitted := s.replaceFirstFailure(policies, s.earlierFailure(snapshot))
	switch {
	// A Job whose pods had all succeeded before it was suspended completes when it counts them.
	case snapshot.Members.anyJobComplete(), isNonRetriable(policies, s.FirstFailure), !isPermitted:
		return s.transitionTo(Failed, snapshot)
	case snapshot.Members.anySuspendedExternally():
		return s.recordFailedNode(policies, snapshot).enterSuspended(snapshot)
	case isWaitingForPods(snapshot) || s.isInBackoff(snapshot):
		return s
	case isWaitingForQueue(snapshot):
		return s.recordFailedNode(policies, snapshot).enterSuspended(snapshot)
	default:
		return s.recordFailedNode(policies, snapshot).transitionTo(Pending, snapshot).startAttempt(snapshot)
	}
}

// isWaitingForPods reports whether the next attempt must wait for pods of the previous one. If
// somebody else resumed the gang, new pods exist already. The terminating pods still have to
// disappear, because their Job counts them as failed only then.
func isWaitingForPods(snapshot Snapshot) bool {
	if snapshot.ResumedExternally {
		return snapshot.PodsTerminating
	}
	return !snapshot.AllPodsTerminated
}

// isInBackoff reports whether the back-off has not elapsed. It does not apply if somebody else
// resumed the gang.
func (s State) isInBackoff(snapshot Snapshot) bool {
	return !snapshot.ResumedExternally && s.RemainingBackoff(snapshot.Now) > 0
}

// RemainingBackoff returns how long a restarting gang has to wait before its next attempt; 0 if the
// back-off has elapsed. A time beyond the maximum back-off is not from Rollcall, and does not count.
func (s State) RemainingBackoff(now time.Time) time.Duration {
	remaining := s.NextRestartTime.Sub(now)
	if remaining < 0 || remaining > maxBackoff {
		return 0
	}
	return remaining
}

// isWaitingForQueue reports whether a queue, and not Rollcall, resumes a member.
func isWaitingForQueue(snapshot Snapshot) bool {
	return !snapshot.ResumedExternally && snapshot.Members.anyAwaitingQueue()
}

// fromSuspended returns the next state of a gang that a user or a queue suspended. The gang starts
// an attempt when all members are resumed.
func (s State) fromSuspended(policies gang.RestartRules, snapshot Snapshot) State {
	if snapshot.Members.anySuspendedExternally() {
		return s.fromActive(policies, snapshot)
	}
	if snapshot.PodsTerminating {
		return s // the pods terminate because of the suspension, which is not a failure
	}
	snapshot.FirstFailure = nil // a failure of the attempt that was suspended
	isPartlyNew := len(snapshot.Members) > 1 && snapshot.HasFormerPods && policies.RestartPolicy == gang.RestartPolicyGang
	if isPartlyNew && !snapshot.Members.anyJobComplete() {
		// The pods of the other members lost their peers. All ranks start the next attempt together.
		return s.handleFailure(policies, snapshot, snapshot.newFailure(failure.ReasonMemberSuspended, memberSuspendedMessage))
	}
	s = s.startAttempt(snapshot)
	if snapshot.FailedPodsBeforeResume != nil && snapshot.ObservedFailures > 0 {
		// The next pass finds out how the pods failed.
		return s.transitionTo(s.nonTerminalPhase(snapshot), snapshot)
	}
	return s.fromActive(policies, snapshot)
}

// fromActive returns the next state of a gang whose ranks run or are expected to run.
func (s State) fromActive(policies gang.RestartRules, snapshot Snapshot) State {
	f := s.detectFailure(policies, snapshot)
	switch {
	case (f == nil || f.Reason == failure.ReasonStartTimeout) && s.mustReleaseNode(policies, snapshot):
		return s.releaseNode(snapshot)
	case f == nil && s.isStartedWithoutCompletedRanks(policies, snapshot):
		return s.repeatStart(snapshot, snapshot.newFailure(failure.ReasonMemberSuspended, memberSuspendedMessage))
	case f == nil:
		return s.transitionTo(s.nonTerminalPhase(snapshot), snapshot)
	case s.isFailedStart(policies, f):
		return s.repeatStart(snapshot, f)
	default:
		return s.handleFailure(policies, snapshot, f)
	}
}

// nonTerminalPhase returns the phase of a gang that has neither finished nor failed.
func (s State) nonTerminalPhase(snapshot Snapshot) Phase {
	members := snapshot.Members
	phase := members.Phase(s.Phase)
	switch {
	case phase != Pending:
		return phase
	case members.anySuspendedExternally() && len(members.Missing()) == 0:
		return Suspended
	case snapshot.PartiallyReady || s.Phase == Starting:
		return Starting
	default:
		return Pending
	}
}

// startAttempt resets the bookkeeping for an attempt whose ranks are resumed now.
func (s State) startAttempt(snapshot Snapshot) State {
	s.AttemptStartTime, s.NextRestartTime = snapshot.statusTime(), time.Time{}
	s.FailedPodsBaseline = snapshot.Members.FailedPods() + snapshot.UncountedFailures
	if n := snapshot.FailedPodsBeforeResume; n != nil && snapshot.HasPods { // later failures are of this attempt
		s.FailedPodsBaseline = min(s.FailedPodsBaseline, *n)
		s.AttemptStartTime = earliestTime(s.AttemptStartTime, snapshot.OldestPodTime)
	}
	s.StartCompleted, s.StatefulSetPods, s.JobStartTime = false, "", time.Time{}
	return s
}

// enterSuspended moves a restarting gang to the phase Suspended. The user or the queue that resumes
// the gang determines the time of the next attempt.
func (s State) enterSuspended(snapshot Snapshot) State {
	s.NextRestartTime = time.Time{}
	return s.transitionTo(Suspended, snapshot)
}

// enterTerminalPhase moves to the terminal phase that the members determine. The condition of a
// failed Job contains the number of its failed pods, but neither names nor reasons. The state
// therefore records the first failure among the pods, unless the Job itself deleted the pod.
func (s State) enterTerminalPhase(phase Phase, snapshot Snapshot) State {
	f := snapshot.FirstFailure
	if phase == Failed && s.Phase != Failed && f != nil && f.Reason != failure.ReasonPodDeleted {
		if s.Phase == Restarting {
			// The Job failed because of the failure for which the gang restarts.
			f = failure.EarlierOf(s.FirstFailure, f)
		}
		s.FirstFailure = f
	} else if phase == Failed && (s.Phase.Active() || s.Phase == Suspended && !s.FollowsRestart) {
		s.FirstFailure = nil // that of an earlier incident
	}
	return s.transitionTo(phase, snapshot)
}

// transitionTo moves to a phase. A gang that is in the phase keeps its transition time.
func (s State) transitionTo(phase Phase, snapshot Snapshot) State {
	if s.Phase == phase {
		return s
	}
	// No attempt follows the suspension of a gang that was created suspended, or that was restarting.
	if phase == Suspended && s.Phase != Restarting && (snapshot.HasPods || s.wereAllReady()) {
		s.Attempt++
	}
	s.Seconds = s.countSeconds(phase, snapshot.Now)
	s.FollowsRestart = phase == Restarting || s.FollowsRestart && (phase != Suspended || s.Phase == Restarting)
	isNotReadyAgain := s.Phase == Running && (phase == Pending || phase == Starting)
	s.StartCompleted = s.StartCompleted || isNotReadyAgain
	s.Phase, s.LastTransitionTime = phase, snapshot.statusTime()
	if phase == Running {
		s.Refusals = 0
	}
	return s
}
