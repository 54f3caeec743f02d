package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
)

// Describe returns a sentence about the state for users. It contains no value that changes within a
// phase, because each change of the message costs a write per member.
func (s State) Describe(policies gang.RestartRules, members Members) string {
	switch s.Phase {
	case Restarting:
		if node := s.releasedNode(); node != "" {
			return fmt.Sprintf("No node was free for some ranks, so the gang restarts and stops avoiding node %s", node)
		}
		return fmt.Sprintf("%s: %s", s.describeIncident(policies), s.FirstFailure)
	case Suspended:
		return s.describeSuspension(policies, members)
	case Pending:
		if s.incidents() > 0 && members.AnySuspended() { // Rollcall resumes the members by the same write
			return s.describeRestart(policies) + " starts"
		}
	case Failed:
		if s.FirstFailure != nil {
			return s.describeFailure(policies, members)
		}
	}
	return members.Describe(s.Phase)
}

// describeSuspension describes what a suspended gang waits for, as far as it is known.
func (s State) describeSuspension(policies gang.RestartRules, members Members) string {
	if s.incidents() > 0 && members.anyAwaitingQueue() {
		return s.describeRestart(policies) + " waits for admission by its queue"
	}
	return suspendedMessage
}

// describeIncident names the incident for which the gang restarts, by the count and the limit of its kind.
func (s State) describeIncident(policies gang.RestartRules) string {
	switch {
	case s.incidents() == 0:
		return "The start is repeated" // after a suspension
	case !s.FirstFailure.IsDisruption():
		return fmt.Sprintf("Restart %d of %d", s.Restarts, policies.MaxRestarts)
	case policies.MaxDisruptions < 0:
		return fmt.Sprintf("Disruption %d", s.Disruptions)
	default:
		return fmt.Sprintf("Disruption %d of %d", s.Disruptions, policies.MaxDisruptions)
	}
}

// describeRestart names the restart after an incident.
func (s State) describeRestart(policies gang.RestartRules) string {
	if s.FirstFailure.IsDisruption() {
		return fmt.Sprintf("The restart after disruption %d", s.Disruptions)
	}
	return s.describeIncident(policies)
}

// describeFailure describes why a gang with a first failure failed instead of restarting.
func (s State) describeFailure(policies gang.RestartRules, members Members) string {
	switch {
	case members.anyJobComplete():
		return fmt.Sprintf("The gang cannot restart because one of its Jobs is complete: %s", s.FirstFailure)
	case isNonRetriable(policies, s.FirstFailure):
		if s.FirstFailure.IsFailedPreflight() {
			return fmt.Sprintf("The preflight check failed the gang: %s", s.FirstFailure)
		}
		return fmt.Sprintf("The first failure has a non-retriable exit code: %s", s.FirstFailure)
	case s.FirstFailure.IsRefusal() && s.Refusals >= MaxRefusals:
		kind := "rejected pod"
		if s.FirstFailure.IsFailedPreflight() {
			kind = "failed preflight check"
		}
		return fmt.Sprintf("The gang failed after %s: %s", formatCount(s.Refusals, kind), s.FirstFailure)
	case s.FirstFailure.IsDisruption() && policies.RestartPolicy == gang.RestartPolicyGang:
		return fmt.Sprintf("The gang failed after %s: %s", formatCount(s.Disruptions, "disruption"), s.FirstFailure)
	default:
		return fmt.Sprintf("The gang failed after %s: %s", formatCount(s.Restarts, "restart"), s.FirstFailure)
	}
}

// suspendedMessage describes a gang that its user or a queue suspended.
const suspendedMessage = "The gang is suspended"

// Describe returns a sentence about the phase for users. It contains no count that changes within
// the phase.
func (m Members) Describe(phase Phase) string {
	switch phase {
	case Running:
		return m.runningMessage()
	case Succeeded:
		return "The gang succeeded"
	case Failed:
		return m.failedMessage()
	}
	if missing := m.Missing(); len(missing) > 0 {
		return "Waiting for " + formatMembers(missing)
	}
	if m.AnySuspended() {
		return suspendedMessage
	}
	return m.waitingMessage()
}

// runningMessage describes what started the phase. A gang stays Running while a rank is not ready, so the
// message does not describe the present.
func (m Members) runningMessage() string {
	size, minReady := m.rankCounts()
	if minReady < size {
		return fmt.Sprintf("At least %d ranks have been ready", minReady)
	}
	return fmt.Sprintf("All %d ranks have been ready", size)
}

// waitingMessage names a complete Job, because its ranks do not run again, so that other ranks may wait for them.
func (m Members) waitingMessage() string {
	size, minReady := m.rankCounts()
	out := fmt.Sprintf("Waiting for all %d ranks to be ready", size)
	if minReady < size {
		out = fmt.Sprintf("Waiting for at least %d ranks to be ready", minReady)
	}
	for _, s := range m {
		if s.Observed.Complete && s.Exists && len(m) > 1 {
			return fmt.Sprintf("%s. %s is complete, and its ranks do not run again. If the other ranks wait for them, "+
				"delete and recreate all workloads of the gang", out, s.WorkloadName)
		}
	}
	return out
}

// failedMessage describes the first failed member. It names the member if there are several.
func (m Members) failedMessage() string {
	failed := m.firstFailedMember()
	switch {
	case failed == nil:
		return "The gang failed"
	case len(m) > 1:
		return fmt.Sprintf("The gang failed: %s: %s", failed.WorkloadName, failed.Observed.Message)
	default:
		return "The gang failed: " + failed.Observed.Message
	}
}

// unobservedMessage describes pods that a workload counts as failed and that no longer exist.
func unobservedMessage(pods int32) string {
	if pods == 1 {
		return "1 pod failed or was deleted before Rollcall observed it"
	}
	return fmt.Sprintf("%d pods failed or were deleted before Rollcall observed them", pods)
}

// memberDeletedMessage names the members that were deleted.
func memberDeletedMessage(missing []gang.Member) string {
	return "Peers failed after the deletion of " + formatMembers(missing)
}

// memberSuspendedMessage describes a gang that was suspended in part.
const memberSuspendedMessage = "A member was suspended while pods of the other members ran"

// replacedRankMessage describes a rank of a StatefulSet whose pod has another UID than before.
const replacedRankMessage = "A StatefulSet replaced a pod that was deleted before Rollcall observed it"

// lostRanksMessage describes ranks that exited with code 0 when their pods were deleted.
func lostRanksMessage(ranks int32) string {
	if ranks == 1 {
		return "1 rank completed when its pod was deleted"
	}
	return fmt.Sprintf("%d ranks completed when their pods were deleted", ranks)
}

// memberRecreatedMessage names the members that were deleted and recreated.
func (s State) memberRecreatedMessage(members Members) string {
	var names []string
	for _, m := range members {
		if s.isNewMember(m) {
			names = append(names, m.WorkloadName)
		}
	}
	verb := "was"
	if len(names) > 1 {
		verb = "were"
	}
	return fmt.Sprintf("%s %s deleted and recreated", strings.Join(names, " and "), verb)
}

// startTimeoutMessage describes the ranks that were not ready in time, and the members that do not exist.
func startTimeoutMessage(timeout time.Duration, snapshot Snapshot) string {
	reasons := slices.Clone(snapshot.NotReadyRanks)
	if missing := snapshot.Members.Missing(); len(missing) > 0 {
		reasons = append(reasons, "waiting for "+formatMembers(missing))
	}
	return fmt.Sprintf("not all ranks were ready within %s: %s", timeout, strings.Join(reasons, "; "))
}

// scheduleTimeoutMessage describes the ranks that wait for their nodes, in the words of the scheduler.
func scheduleTimeoutMessage(timeout time.Duration, snapshot Snapshot) string {
	return fmt.Sprintf("for %s, %s had a node and %s had none: %s", timeout,
		gang.FormatCount(snapshot.Placement.Bound, "rank"), formatCount(snapshot.Placement.Unbound, "rank"),
		strings.Join(snapshot.NotReadyRanks, "; "))
}

func formatCount(n int32, noun string) string {
	if n == 0 {
		return "no " + noun
	}
	return gang.FormatCount(n, noun)
}

func formatMembers(members []gang.Member) string {
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprintf("%s (role %s, %s)", m.WorkloadName, m.Role, gang.FormatCount(m.Size, "pod")))
	}
	return strings.Join(out, " and ")
}
