package controller

import (
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
