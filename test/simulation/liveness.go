package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
)

// checkQuiet checks the gang after nothing has happened for a long time.
func (o *oracle) checkQuiet(passes int) {
	if passes > int(quietPeriod/(2*time.Second)) {
		o.violate(tooManyPasses, "%d passes in %s without an event", passes, quietPeriod)
	}
	status := o.final
	live := o.liveRanks()
	missing := int(o.scenario.Ranks) - live - o.countSucceeded()
	if strings.Contains(status.Message, "are ready") && !strings.HasPrefix(status.Message, "Waiting") && missing > 0 {
		o.violate(falseReadiness, "%d of %d ranks run: %s", live, o.scenario.Ranks, status.Message)
	}
	if reason := o.describeProblem(missing); reason != "" {
		o.violate(waitsIndefinitely, "%s: phase %s, %s: %s", reason, status.Phase, status.Reason, status.Message)
	}
}

// liveRanks returns the number of ranks of the gang with a running program.
func (o *oracle) liveRanks() int {
	n := 0
	for _, p := range o.programs.live {
		if gangOf(p.pod) == gangName && !o.strangers.Has(p.pod.OwnerReferences[0].Name) && !p.node.lost && !p.terminating {
			n++
		}
	}
	return n
}

func (o *oracle) countSucceeded() int {
	n := 0
	for _, indexes := range o.succeeded {
		n += indexes.Len()
	}
	return n
}

// checkEnd checks the gang after all programs have finished their work.
func (o *oracle) checkEnd() {
	phase := o.final.Phase
	if o.isExcused() || phase.Terminal() || o.userSuspended {
		return
	}
	o.violate(waitsIndefinitely, "all programs have finished: phase %s, %s: %s", phase, o.final.Reason, o.final.Message)
}

// isExcused reports whether something that nobody repaired keeps the gang from running.
func (o *oracle) isExcused() bool {
	isAnyLost := slices.ContainsFunc(o.nodes, func(n *node) bool { return n.lost })
	isUnrepaired := isAnyLost || len(o.deleted) > 0 || len(o.forbidden) > 0
	isPartlyFinished := o.final.Reason == gang.ReasonMembersMissing &&
		(o.isAnyMemberFinished() || o.isUnfinishedMemberGone())
	isCompleteTooEarly := o.terminatedWithoutLeader && o.completed.Len() > 0 // docs/tasks/configure-completion.md
	return isUnrepaired || isPartlyFinished || isCompleteTooEarly || o.resultLost || len(o.last) == 0 || !o.isAnyMember()
}

// isAnyMember reports whether a workload of the gang exists.
func (o *oracle) isAnyMember() bool {
	return slices.ContainsFunc(o.scenario.members(), func(m memberSpec) bool {
		_, ok := o.member(m)
		return ok
	})
}

// describeProblem describes why the gang is not in a state in which it may stay; empty if it may.
func (o *oracle) describeProblem(missing int) string {
	status := o.final
	isSuspended := false
	for _, m := range o.scenario.members() {
		w, ok := o.member(m)
		isSuspended = isSuspended || ok && w.IsSuspended()
	}
	switch {
	case o.isExcused() && !status.Phase.Terminal():
		return ""
	case status.Phase.Terminal():
		if n := o.liveRanks(); n > 0 {
			return fmt.Sprintf("%d ranks run after the end", n)
		}
		return ""
	case o.userSuspended:
		if !isSuspended {
			return "the gang runs although its user suspended it"
		}
		return ""
	case missing <= 0 && !isSuspended:
		return ""
	case o.namesProblem():
		return ""
	default:
		return fmt.Sprintf("%d ranks do not run", missing)
	}
}

// isAnyMemberFinished reports whether a Job of the gang has finished. If its user created another member again,
// the Job belongs to an earlier run, and the user has to create it again, too.
func (o *oracle) isAnyMemberFinished() bool {
	for _, m := range o.scenario.members() {
		if w, ok := o.member(m); ok && w.Job != nil && isJobFinished(w.Job) {
			return true
		}
	}
	return false
}

// isUnfinishedMemberGone reports whether a member does not exist that has not completed. Only its user can create
// it again.
func (o *oracle) isUnfinishedMemberGone() bool {
	for _, m := range o.scenario.members() {
		if _, ok := o.member(m); !ok && !o.completed.Has(m.name) {
			return true
		}
	}
	return false
}

// namesProblem reports whether the status names what the gang waits for, and whether that is true.
func (o *oracle) namesProblem() bool {
	switch o.final.Reason {
	case gang.ReasonMembersMissing, gang.ReasonMemberConflict:
		return len(o.deleted) > 0 || o.isAnyMemberFinished() || o.isUnfinishedMemberGone()
	case gang.ReasonPodStuckTerminating:
		return o.isExcused()
	case gang.ReasonRequestRejected:
		return len(o.forbidden) > 0
	}
	return false
}
