package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// missingMemberGracePeriod is how long a missing member is not reported. Users create and delete the
// workloads of a gang one after the other, and each report costs a write per member.
const missingMemberGracePeriod = 5 * time.Second

// checkMembership returns reason and message if members of a multi-workload gang are missing; the zero
// value if there is no problem. If a workload exists that is probably meant to be a missing member, the
// reason is MemberConflict. It returns false if a member has been missing only briefly and the gang must
// not be written.
func (r *Reconciler) checkMembership(ctx context.Context, g *observedGang) (lifecycle.Status, bool) {
	missing := g.memberStates.Missing()
	since, now := &g.pass.session.missingSince, r.Clock.Now()
	if delay := lifecycle.RemainingDelay(since, len(missing) > 0, missingMemberGracePeriod, now); delay > 0 {
		g.pass.requeueAfter(delay)
		return lifecycle.Status{}, false
	}
	if len(missing) == 0 {
		return lifecycle.Status{}, true
	}
	specs, err := r.findMisplacedMembers(ctx, g, missing)
	if err != nil {
		g.pass.handleError(err)
		return lifecycle.Status{}, false
	}
	for _, m := range g.Members {
		specs = append(specs, m.Spec())
	}
	if conflicts := roster.FindConflicts(specs); len(conflicts) > 0 {
		return lifecycle.Status{Reason: gang.ReasonMemberConflict, Message: conflictMessage(conflicts)}, true
	}
	message := g.memberStates.Describe(lifecycle.Pending)
	for _, m := range g.EarlierRun {
		message += ". " + m.describeEarlierRun()
	}
	return lifecycle.Status{Reason: gang.ReasonMembersMissing, Message: message}, true
}

func conflictMessage(conflicts []string) string {
	return "The workloads of the gang have conflicting settings: " + strings.Join(conflicts, "; ")
}

// findMisplacedMembers returns workloads that are probably missing members: workloads of the right name
// that are in no gang or in another gang.
func (r *Reconciler) findMisplacedMembers(
	ctx context.Context, g *observedGang, missing []gang.Member,
) ([]roster.MemberSpec, error) {
	var out []roster.MemberSpec
	for _, m := range missing {
		for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
			w, _ := gang.NewWorkload(kind)
			key := client.ObjectKey{Namespace: g.pass.request.Namespace, Name: m.WorkloadName}
			err := r.Client.Get(ctx, key, w.Object().(client.Object)) // the cache returns only NotFound
			if err != nil || w.Meta().DeletionTimestamp != nil || g.isOfEarlierRun(w) {
				continue
			}
			spec, err := r.describeMisplacedMember(w)
			if err != nil {
				return nil, err
			}
			out = append(out, spec)
		}
	}
	return out, nil
}

// describeMisplacedMember returns the settings of the gang in a workload that has the name of a missing
// member, or the reason why it is not the member.
func (r *Reconciler) describeMisplacedMember(w gang.Workload) (roster.MemberSpec, error) {
	m, err := r.readMember(w)
	if err != nil {
		return roster.MemberSpec{}, err
	}
	spec := m.Spec()
	switch {
	case w.OptedOut():
		spec.Problem = fmt.Sprintf("has the label %s: \"false\"; remove the label and recreate the workload",
			gang.LabelInject)
	case w.IsManagedExternally():
		spec.Problem = "has spec.managedBy, so Rollcall does not manage it; remove the field and recreate the workload"
	}
	return spec, nil
}

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
