package lifecycle

import (
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// detectFailure returns the failure for which the gang must restart or fail. It returns nil if there
// is none, and if Rollcall does not handle failures of the gang.
func (s State) detectFailure(policies gang.Policies, snapshot Snapshot) *failure.Failure {
	members := snapshot.Members
	switch {
	case !handlesFailures(policies) || members.AnySuspended() || members.AnyFinishing():
		return nil
	case snapshot.FirstFailure != nil:
		return snapshot.FirstFailure
	case members.FailedPods() > s.FailedPodsBaseline:
		return &failure.Failure{
			Rank: -1, Reason: failure.ReasonUnobserved, Time: snapshot.statusTime(),
			Message: unobservedMessage(members.FailedPods() - s.FailedPodsBaseline),
		}
	case s.hasLostRanks(snapshot):
		return &failure.Failure{
			Rank: -1, Reason: failure.ReasonRankLost, Time: snapshot.statusTime(),
			Message: lostRanksMessage(snapshot.LostRanks),
		}
	case s.isRankReplaced(snapshot):
		return &failure.Failure{
			Rank: -1, Reason: failure.ReasonUnobserved, Time: snapshot.statusTime(), Message: replacedRankMessage,
		}
	case s.isMemberRecreated(members):
		return &failure.Failure{
			Rank: -1, Reason: failure.ReasonMemberRecreated, Time: snapshot.statusTime(),
			Message: s.memberRecreatedMessage(members),
		}
	case s.isStartTimeoutExceeded(policies.StartTimeout, snapshot.Now):
		return &failure.Failure{
			Rank: -1, Reason: failure.ReasonStartTimeout, Time: snapshot.statusTime(),
			Message: startTimeoutMessage(policies.StartTimeout, snapshot),
		}
	default:
		return nil
	}
}

// hasLostRanks reports whether an attempt that has not started completely cannot produce all ranks.
// After the start, a finished pod may disappear with its node while its peers still run.
func (s State) hasLostRanks(snapshot Snapshot) bool {
	isStarting := s.Phase == Pending || s.Phase == Starting
	return isStarting && !s.StartCompleted && snapshot.LostRanks > 0
}

// wereAllReady reports whether all ranks of the current attempt were ready once.
func (s State) wereAllReady() bool { return s.Phase == Running || s.StartCompleted }

// isMemberRecreated reports whether a member was deleted and recreated after all ranks of the attempt
// were ready. Its ranks are lost for the other members, as if their pods were deleted. Before all ranks
// were ready, the other ranks still wait for their peers, and find those of the new member. A gang with
// a complete Job cannot restart, and the recreation of another member does not fail it.
func (s State) isMemberRecreated(members Members) bool {
	return s.wereAllReady() && s.hasNewMember(members) && len(members.Missing()) == 0 && !members.anyJobComplete()
}

// handlesFailures reports whether Rollcall reacts to the failure of a rank. With the policy pod, the
// controller of the workload does.
func handlesFailures(policies gang.Policies) bool {
	return policies.RestartPolicy == gang.RestartPolicyGang || policies.RestartPolicy == gang.RestartPolicyNever
}

// isStartTimeoutExceeded reports whether the ranks of the attempt were never all ready within the
// timeout; 0 disables the timeout.
func (s State) isStartTimeoutExceeded(timeout time.Duration, now time.Time) bool {
	return timeout > 0 && s.Phase != Running && !s.StartCompleted && !s.AttemptStartTime.IsZero() &&
		now.Sub(s.AttemptStartTime) >= timeout
}

// handleFailure restarts the gang if a restart is possible, and fails it otherwise.
func (s State) handleFailure(policies gang.Policies, snapshot Snapshot, f *failure.Failure) State {
	s.FirstFailure = f
	if !s.canRestart(policies, snapshot.Members, f) {
		return s.transitionTo(Failed, snapshot)
	}
	s.Restarts, s.Attempt, s.StartCompleted = s.Restarts+1, s.Attempt+1, false
	s = s.transitionTo(Restarting, snapshot)
	s.LastRestartTime = s.LastTransitionTime
	s.NextRestartTime = s.LastRestartTime.Add(Backoff(s.Restarts))
	return s
}

// canRestart reports whether the gang can restart after a failure. Ranks that succeeded run
// again, as long as their Job is not complete: Kubernetes never restarts a complete Job.
func (s State) canRestart(policies gang.Policies, members Members, f *failure.Failure) bool {
	return policies.RestartPolicy != gang.RestartPolicyNever && s.Restarts < policies.MaxRestarts &&
		!isNonRetriable(policies, f) && !members.anyJobComplete()
}

// isNonRetriable reports whether the exit code of a failure, which may be nil, fails the gang. Only
// exit codes of training containers count. An init container that could not fetch its data may
// succeed the next time. A rank that lost a peer, or that may have been terminated, is probably not
// the first failure, which the kubelet may report later. See docs/adr/0017-non-retriable-exit-codes.md.
func isNonRetriable(policies gang.Policies, f *failure.Failure) bool {
	if f == nil || f.Container == "" || f.Auxiliary || f.LostPeer || f.MaybeTerminated {
		return false
	}
	return policies.NonRetriableExitCodes.Has(f.ExitCode)
}
