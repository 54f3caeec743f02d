package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// maxCandidates is the maximum number of Jobs, and of StatefulSets, with the name of a multi-workload gang
// that a pass parses. Anybody can create more of them, and each of them costs about a millisecond. A gang
// has at most as many members.
const maxCandidates = gang.MaxRoles

// findCandidates returns the workloads of a group that may be members of the multi-workload gang, at most
// [maxCandidates] of each kind. owners are the owners of the Service of the gang if no workload has a status.
func (r *Reconciler) findCandidates(
	ctx context.Context, group roster.Group,
) (candidates []gang.Workload, owners []types.UID, err error) {
	known := sets.New[types.UID]()
	for _, w := range group.Workloads {
		if len(lifecycle.ReadStatus(w).MemberUIDs) > 0 {
			known.Insert(w.Meta().UID)
		}
	}
	if known.Len() == 0 {
		if owners, err = r.findServiceOwners(ctx, group); err != nil {
			return nil, nil, err
		}
		known.Insert(owners...)
	}
	return limitCandidates(group.Workloads, known), owners, nil
}

// limitCandidates returns at most [maxCandidates] workloads of each kind: the known ones, then the oldest.
func limitCandidates(workloads []gang.Workload, known sets.Set[types.UID]) []gang.Workload {
	if len(workloads) <= maxCandidates {
		return workloads
	}
	order := func(w gang.Workload) int {
		if known.Has(w.Meta().UID) {
			return 0
		}
		return 1
	}
	sorted := slices.SortedStableFunc(slices.Values(workloads), func(a, b gang.Workload) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), compareAges(a, b))
	})
	count := map[gang.Kind]int{}
	return slices.DeleteFunc(sorted, func(w gang.Workload) bool {
		count[w.Kind()]++
		return count[w.Kind()] > maxCandidates
	})
}

// compareAges orders workloads by creation time and name.
func compareAges(a, b gang.Workload) int {
	return cmp.Or(
		a.Meta().CreationTimestamp.Compare(b.Meta().CreationTimestamp.Time),
		cmp.Compare(a.Meta().Name, b.Meta().Name),
	)
}

// findServiceOwners returns the UIDs of the owners of the Service that Rollcall created for a gang; nil if
// there is none. The Service is that of the oldest workload: who creates another workload later cannot
// choose another Service.
func (r *Reconciler) findServiceOwners(ctx context.Context, group roster.Group) ([]types.UID, error) {
	injected := slices.DeleteFunc(slices.Clone(group.Workloads), func(w gang.Workload) bool {
		return !w.IsInjected() || w.ServiceName() == ""
	})
	if len(injected) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(injected, compareAges)
	service, err := r.findService(ctx, client.ObjectKey{Namespace: group.Namespace, Name: oldest.ServiceName()})
	if err != nil || service == nil || !isGangService(service, group.Name) {
		return nil, err
	}
	var owners []types.UID
	for _, owner := range service.OwnerReferences {
		owners = append(owners, owner.UID)
	}
	return owners, nil
}

// ignoreWorkloads records that a pass did not parse some workloads with the name of the gang. If nothing
// identifies the members, they may be among these workloads, so the gang is frozen. The message contains no
// number that changes, because each change costs a write per workload.
func (g *observedGang) ignoreWorkloads(isIdentified bool) {
	g.hasMoreWorkloads = true
	if !isIdentified {
		g.Conflicts = slices.Concat([]string{describeLimit()}, g.Conflicts)
	}
}

func describeLimit() string {
	return fmt.Sprintf("more than %d Jobs or %d StatefulSets have the name of the gang, and Rollcall reads no more",
		maxCandidates, maxCandidates)
}
