package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// freezeGang reports the conflicts of a gang on all of its workloads. The gang keeps its phase. Nothing
// else is written: each of the workloads may belong to somebody else, so none of them may restart, end
// or complete another one.
func (r *Reconciler) freezeGang(ctx context.Context, g *observedGang) {
	r.sessions.recordPass(g.pass.request, 0, r.Clock.Now())
	message := conflictMessage(g.Conflicts) + ". Rollcall does not restart or complete the gang until they match"
	for _, m := range slices.Concat(g.Members, g.Strangers) {
		g.pass.handleError(r.reportConflict(ctx, m, message))
	}
}

// reportStrangers reports on each stranger that it is not a member of the gang. The members have the
// report in their own status; see [observedGang.describeStrangers].
func (r *Reconciler) reportStrangers(ctx context.Context, g *observedGang) {
	for _, m := range g.Strangers {
		message := fmt.Sprintf("The gang %s has all of its workloads, and this %s is not one of them. "+
			"Delete it, or recreate it with another name and another label %s",
			g.firstResult().Gang.Name, m.Kind(), gang.LabelGang)
		g.pass.handleError(r.reportConflict(ctx, m, message))
	}
}

// reportConflict writes the reason MemberConflict to a workload and keeps the rest of its own status.
func (r *Reconciler) reportConflict(ctx context.Context, m member, message string) error {
	if !m.IsInjected() {
		return nil // reported by reportNotInjected
	}
	last := m.lastStatus()
	status := last
	status.Reason, status.Message = gang.ReasonMemberConflict, message
	status.Phase = cmp.Or(last.Phase, lifecycle.ReadPhase(m.Workload), lifecycle.Pending)
	if status.LastTransitionTime.IsZero() {
		status.LastTransitionTime = m.admissionTime()
	}
	wrote, err := r.writeStatusIfChanged(ctx, m, status)
	if err == nil && wrote {
		r.recordPhaseChange(ctx, m, last, status)
	}
	return err
}

// describeStrangers describes the workloads that have the name of the gang and are not members; empty
// if there are none.
func (g *observedGang) describeStrangers() string {
	if len(g.Strangers) == 0 {
		return ""
	}
	const maxNames = 5
	var names []string
	for _, m := range g.Strangers[:min(len(g.Strangers), maxNames)] {
		names = append(names, m.Spec().String())
	}
	if len(g.Strangers) > maxNames {
		names = append(names, fmt.Sprintf("and %d more", len(g.Strangers)-maxNames))
	}
	if g.hasMoreWorkloads {
		names = append(names, describeLimit())
	}
	return fmt.Sprintf("Not a member of the gang, although the gang name is the same: %s. "+
		"Delete what does not belong to the gang, or recreate it with another name and another label %s",
		strings.Join(names, ", "), gang.LabelGang)
}

// isOfEarlierRun reports whether a workload belongs to an earlier run of the gang.
func (g *observedGang) isOfEarlierRun(w gang.Workload) bool {
	return slices.ContainsFunc(g.EarlierRun, func(m member) bool { return m.Meta().UID == w.Meta().UID })
}

// reportEarlierRun records once that workloads of an earlier run are not members of the gang.
func (r *Reconciler) reportEarlierRun(g *observedGang) {
	for _, m := range g.EarlierRun {
		if g.pass.session.recordReport("earlier run " + string(m.Meta().UID)) {
			r.recordWarning(g.primaryMember().Workload, gang.ReasonMemberOfEarlierRun, eventActionCheckMembers,
				"%s", m.describeEarlierRun())
		}
	}
}

// describeEarlierRun describes why a finished workload is not a member of the current run.
func (m member) describeEarlierRun() string {
	return fmt.Sprintf("The %s finished before other workloads of the gang were created, "+
		"so it belongs to an earlier run. Delete it, and recreate it if the gang needs it", m.Spec())
}
