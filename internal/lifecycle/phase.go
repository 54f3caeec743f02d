package lifecycle

import (
	"cmp"
	"slices"

	"rollcall.training/gang"
)

// Phase is the phase of a gang. The zero value means that Rollcall has not reconciled the workload.
type Phase string

// The phases of a gang. docs/concepts/lifecycle.md describes the transitions.
const (
	// Pending means that some ranks are not ready, or that a member does not exist.
	Pending Phase = "Pending"
	// Starting means that some ranks have been ready for minutes, but not all.
	Starting Phase = "Starting"
	// Running means that all ranks were ready at the same time and that none had to be replaced since.
	// A rank that succeeds before its peers does not end the phase.
	Running Phase = "Running"
	// Restarting means that the gang had a failure and that all ranks are terminated to restart
	// together.
	Restarting Phase = "Restarting"
	// Suspended means that the user or a queue suspended a member.
	Suspended Phase = "Suspended"
	// Succeeded means that the member that determines completion succeeded, or that all members did.
	// The phase is terminal.
	Succeeded Phase = "Succeeded"
	// Failed means that a member failed before the gang succeeded, or that a rank failed and the gang
	// cannot restart. The phase is terminal.
	Failed Phase = "Failed"
)

// Phases returns all phases in the order in which a gang can reach them.
func Phases() []Phase {
	return []Phase{Pending, Starting, Running, Restarting, Suspended, Succeeded, Failed}
}

// Terminal reports whether a gang stays in the phase.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed }

// Active reports whether ranks run or are expected to run in a phase.
func (p Phase) Active() bool { return p == Pending || p == Starting || p == Running }

// Reason returns the reason that status and Events give for entering the phase: [gang.ReasonGangRunning] for Running.
func (p Phase) Reason() gang.Reason { return gang.Reason("Gang" + cmp.Or(p, Pending)) }

// Phase returns the phase that the members of a gang determine without its pods: Pending, Running or
// a terminal phase. previous is the phase in which the gang was.
func (m Members) Phase(previous Phase) Phase {
	if phase := m.terminalPhase(previous); phase != "" {
		return phase
	}
	switch {
	case m.AnySuspended() || len(m.Missing()) > 0:
		return Pending
	case m.allReady(), previous == Running && m.allActiveOrSucceeded():
		return Running
	default:
		return Pending
	}
}

func (m Members) allReady() bool {
	return m.allMatch(func(s MemberState) bool { return s.Observed.ReadyPods >= s.MinReady })
}

// anyReady reports whether a rank is ready by the status of its workload.
func (m Members) anyReady() bool {
	return slices.ContainsFunc(m, func(s MemberState) bool { return s.Observed.ReportedReadyPods > 0 })
}

// allReadyOrSucceeded reports whether every rank is ready or has succeeded by the status of its workload. After a short
// suspension, a Job may still count ranks that run again, so that is not enough for the phase Running.
func (m Members) allReadyOrSucceeded() bool {
	return m.allMatch(func(s MemberState) bool {
		ready := max(s.Observed.ReadyPods, s.Observed.ReportedReadyPods)
		return s.Observed.Complete || ready+s.Observed.SucceededPods >= s.MinReady
	})
}

// allActiveOrSucceeded reports whether every rank runs or has succeeded. A rank that succeeded
// before its peers is not ready any more.
func (m Members) allActiveOrSucceeded() bool {
	return m.allMatch(func(s MemberState) bool { return s.Observed.ActivePods+s.Observed.SucceededPods >= s.MinReady })
}

// terminalPhase returns the phase in which the gang has finished. It returns the empty phase if the
// gang has not finished.
//
// The conditions of the workloads decide, and they are final. The previous phase alone does not
// decide, because anybody can write a label. It counts only where the workloads no longer contain
// the answer; see [Members.keepsTerminalPhase].
func (m Members) terminalPhase(previous Phase) Phase {
	if m.keepsTerminalPhase(previous) {
		return previous
	}
	completed, failed := m.completedMember(), m.firstFailedMember()
	switch {
	case completed == nil && failed == nil:
		return ""
	case completed == nil:
		return Failed
	case failed == nil:
		return Succeeded
	case failed.Observed.FinishTime.Before(completed.Observed.FinishTime):
		return Failed
	default:
		// In the same second, the member that determines completion counts.
		return Succeeded
	}
}

// keepsTerminalPhase reports whether a gang stays in the terminal phase that it had, whatever its
// members show now.
func (m Members) keepsTerminalPhase(previous Phase) bool {
	return m.isScaledDownAfterSuccess(previous) || m.hasOppositeResults(previous) ||
		m.isFailedMemberDeleted(previous) || m.isCompletedMemberDeleted(previous)
}

// isScaledDownAfterSuccess reports whether a gang with a StatefulSet succeeded and was scaled to 0.
// The pods, which were the only record of the success, no longer exist.
func (m Members) isScaledDownAfterSuccess(previous Phase) bool {
	hasStatefulSet := slices.ContainsFunc(m, func(s MemberState) bool { return s.Exists && s.Observed.IsStatefulSet })
	return previous == Succeeded && hasStatefulSet && m.allMatch(func(s MemberState) bool {
		return !s.Exists || s.Observed.Complete || s.isSuspended()
	})
}

// hasOppositeResults reports whether one member completed and one failed after the gang had
// finished. The result that was observed first counts.
func (m Members) hasOppositeResults(previous Phase) bool {
	return previous.Terminal() && m.completedMember() != nil && m.firstFailedMember() != nil
}

// isFailedMemberDeleted reports whether a gang failed and the failed member may have been deleted, as
// a Job with a time to live is.
func (m Members) isFailedMemberDeleted(previous Phase) bool {
	return previous == Failed && m.firstFailedMember() == nil && len(m.Missing()) > 0
}

// isCompletedMemberDeleted reports whether a gang succeeded and the member that determined its
// completion may have been deleted.
func (m Members) isCompletedMemberDeleted(previous Phase) bool {
	if previous != Succeeded || m.completedMember() != nil {
		return false
	}
	determining := slices.DeleteFunc(slices.Clone(m), func(s MemberState) bool { return !s.DeterminesCompletion })
	if len(determining) == 0 {
		determining = m
	}
	return len(determining.Missing()) > 0
}

// completedMember returns the member that completed the gang: the first complete member that
// determines completion. If no member determines completion, all members except long-running ones
// must be complete, and the last of them is returned. The result is nil if the gang is not complete.
func (m Members) completedMember() *MemberState {
	var first, last *MemberState
	anyDetermines := false
	for i := range m {
		s := &m[i]
		anyDetermines = anyDetermines || s.DeterminesCompletion
		if !s.Observed.Complete {
			continue
		}
		if s.DeterminesCompletion && (first == nil || s.Observed.FinishTime.Before(first.Observed.FinishTime)) {
			first = s
		}
		if last == nil || last.Observed.FinishTime.Before(s.Observed.FinishTime) {
			last = s
		}
	}
	if anyDetermines {
		return first
	}
	if m.allMatch(func(s MemberState) bool { return s.LongRunning || s.Observed.Complete }) {
		return last
	}
	return nil
}

// firstFailedMember returns the member whose workload failed first; nil if none failed.
func (m Members) firstFailedMember() *MemberState {
	var first *MemberState
	for i := range m {
		s := &m[i]
		if s.Exists && s.Observed.Failed && (first == nil || s.Observed.FinishTime.Before(first.Observed.FinishTime)) {
			first = s
		}
	}
	return first
}
