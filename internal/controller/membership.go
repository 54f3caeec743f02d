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
// that are in no gang or in another gang, or members in another namespace.
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
	if len(out) > 0 || len(g.EarlierRun) > 0 { // a member of an earlier run explains why one is missing
		return out, nil
	}
	return r.findInOtherNamespaces(ctx, g, missing)
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

// findInOtherNamespaces returns missing members that exist in another namespace. The workloads there
// must describe the same gang and must all be missing here, so that two teams with gangs of the same
// name do not see each other. The result does not name the namespace, which can belong to another
// tenant. A workload in another namespace does not cause a pass, so the search is repeated.
func (r *Reconciler) findInOtherNamespaces(
	ctx context.Context, g *observedGang, missing []gang.Member,
) ([]roster.MemberSpec, error) {
	own := g.firstResult().Gang
	g.pass.requeueAfter(retryInterval(r.Clock.Since(g.primaryMember().Meta().CreationTimestamp.Time)))
	workloads, err := r.listWorkloads(ctx, indexMultiWorkload, "", own.Name)
	if err != nil {
		return nil, err
	}
	byNamespace := map[string][]gang.Workload{}
	for _, w := range workloads {
		if namespace := w.Meta().Namespace; namespace != own.Namespace && w.Meta().DeletionTimestamp == nil {
			byNamespace[namespace] = append(byNamespace[namespace], w)
		}
	}
	var out []roster.MemberSpec
	for _, others := range byNamespace {
		if slices.ContainsFunc(others, func(w gang.Workload) bool { return !r.isMissingMember(w, own, missing) }) {
			continue
		}
		for _, w := range others {
			spec := roster.MemberSpec{Kind: w.Kind(), WorkloadName: w.Meta().Name,
				Problem: "is in another namespace; create all workloads of a gang in one namespace"}
			if !slices.ContainsFunc(out, func(o roster.MemberSpec) bool { return o.String() == spec.String() }) {
				out = append(out, spec)
			}
		}
	}
	return out, nil
}

// isMissingMember reports whether a workload in another namespace would be one of the missing members
// of the gang.
func (r *Reconciler) isMissingMember(w gang.Workload, own gang.Gang, missing []gang.Member) bool {
	if !slices.ContainsFunc(missing, func(m gang.Member) bool { return m.WorkloadName == w.Meta().Name }) {
		return false
	}
	other := roster.ReadMember(r.Engine, w)
	if other.Err != nil {
		return false
	}
	spec := roster.MemberSpec{Kind: w.Kind(), WorkloadName: w.Meta().Name, Gang: *other.Gang()}
	return len(roster.FindConflicts([]roster.MemberSpec{{Gang: own}, spec})) == 0
}
