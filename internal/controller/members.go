package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// observedGang is a gang as one pass observes it. It belongs to the goroutine of the pass.
type observedGang struct {
	pass *pass
	// Roster is that of the workloads with the name of the gang. Members is never empty. Nobody may act on the members
	// with Conflicts.
	roster.Roster[member]
	// memberStates contains the members that the gang must have, whether they exist or not.
	memberStates lifecycle.Members
	// observed is what the workloads and the pods show. observe sets it.
	observed lifecycle.Observed
	// isIsolated is true if the Service of a restarting gang selects only the pods of the next attempt.
	// ignoresOverduePods is true if the restart does not wait for overdue pods; see observeIsolation.
	isIsolated, ignoresOverduePods bool
	// awaitsIsolation is true if the Service of a suspended gang could not be limited to the next attempt.
	awaitsIsolation bool
	// multiWorkload is true for a gang of several workloads.
	multiWorkload bool
	// hasMoreWorkloads is true if a pass did not parse all workloads with the name of the gang.
	hasMoreWorkloads bool
	// childProblem is why the gang does not have all of its children: a request that the API server rejected, or else a
	// PodGroup that cannot be created. It is the zero value if there is no problem.
	childProblem lifecycle.Status
	// queued is the place of the gang in a queue.
	queued queuedGang
	// judgment is what the policy of the cluster says about the gang.
	judgment
}

// member is an existing workload of a gang. Its Result is nil, too, if the workload was admitted without
// injection.
type member struct {
	roster.Member
	// contentDigest identifies the whole workload, of which the cache contains a part; the resource version if
	// the cache has no digest.
	contentDigest string
	// managedByQueue is true if a queue resumes the workload after Rollcall releases it.
	managedByQueue bool
	// observed is what the workload and its pods show. observe sets it.
	observed lifecycle.ObservedWorkload
}

// observeStatus returns the observation of the workload.
func (m member) observeStatus() lifecycle.Observation {
	observed := lifecycle.Observe(m.Workload)
	observed.ManagedByQueue = m.managedByQueue
	return observed
}

// lastStatus returns the status that was last written to the member.
func (m member) lastStatus() lifecycle.Status { return lifecycle.ReadStatus(m.Workload) }

// admissionTime returns when admission set the phase of the member, to the second.
func (m member) admissionTime() time.Time {
	return m.Meta().CreationTimestamp.UTC().Truncate(time.Second)
}

// clientObject returns the workload as a client needs it.
func (m member) clientObject() client.Object { return m.Object().(client.Object) }

// firstResult returns the first member that could be parsed; nil if there is none. The settings of the
// gang are equal in all members, or the gang has the reason MemberConflict.
func (g *observedGang) firstResult() *injectors.Result {
	for _, m := range g.Members {
		if m.Result != nil {
			return m.Result
		}
	}
	return nil
}

// primaryMember returns the member whose status is the state of the gang: the first injected member,
// or the first member if none is injected.
func (g *observedGang) primaryMember() member {
	return g.Members[max(0, slices.IndexFunc(g.Members, member.IsInjected))]
}

func (g *observedGang) isPrimaryMember(m member) bool {
	return m.Meta().UID == g.primaryMember().Meta().UID
}

// lastState returns the state of the gang that was last written. The phase is that of the annotation,
// because anybody can write the label. Only before the first pass is the label the only source.
func (g *observedGang) lastState() lifecycle.State {
	source := g.primaryMember()
	if g.StateSource != nil {
		source = *g.StateSource
	}
	state := source.lastStatus().State
	if !g.gangPolicies().FailureOutput { // an earlier manager may have recorded output
		state.FirstFailure = state.FirstFailure.WithoutOutput()
	}
	state.Phase = cmp.Or(state.Phase, lifecycle.ReadPhase(source.Workload))
	if state.AttemptStartTime.IsZero() {
		state.AttemptStartTime = source.Meta().CreationTimestamp.Time
	}
	return state
}

// gangPolicies returns the policies of the gang. If no member could be parsed, Rollcall neither
// restarts the gang nor deletes pods.
func (g *observedGang) gangPolicies() gang.RestartRules {
	if first := g.firstResult(); first != nil {
		return first.Gang.RestartRules
	}
	return gang.RestartRules{RestartPolicy: gang.RestartPolicyPod, CleanPodPolicy: gang.CleanPodPolicyNone}
}

// listGangs lists the workloads of a request and groups them into gangs. It excludes workloads that
// are being deleted and have not finished. A Job with a time to live of 0 is deleted as soon as it
// finishes, and the other members of its gang still need its result. It also excludes Jobs of another
// controller, which writes their status, and whose pods can be in another cluster. The workloads of a
// multi-workload gang are not copies.
func (r *Reconciler) listGangs(ctx context.Context, req Request) ([]roster.Group, error) {
	frameworks := r.Engine.Frameworks()
	var workloads []gang.Workload
	var err error
	if req.Gang != "" {
		workloads, err = r.listWorkloads(ctx, indexGang, req.Namespace, req.Gang)
	} else {
		workloads, err = r.listSingleWorkload(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	workloads = slices.DeleteFunc(workloads, func(w gang.Workload) bool {
		isOther := req.Gang != "" && !gang.IsMultiWorkloadMember(w, frameworks)
		isDeleted := w.Meta().DeletionTimestamp != nil && !lifecycle.Observe(w).HasResult()
		return isOther || isDeleted || w.IsManagedExternally()
	})
	return roster.GroupWorkloads(workloads, frameworks), nil
}

// listSingleWorkload returns the workload of a request for a gang of one workload. The result is empty
// if the workload does not exist or became a member of a multi-workload gang.
func (r *Reconciler) listSingleWorkload(ctx context.Context, req Request) ([]gang.Workload, error) {
	w, ok := gang.NewWorkload(req.Kind)
	if !ok {
		return nil, fmt.Errorf("reading %q: unsupported workload kind", req.Kind)
	}
	key := client.ObjectKey{Namespace: req.Namespace, Name: req.Name}
	if err := r.Client.Get(ctx, key, w.Object().(client.Object)); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if r.isInMultiWorkloadGang(ctx, w) {
		return nil, nil
	}
	return []gang.Workload{w}, nil
}

// observeGangs returns the gangs of a group. A group is one gang, unless no member of a multi-workload
// gang can be parsed. Then each workload is a gang of its own.
func (r *Reconciler) observeGangs(ctx context.Context, p *pass, group roster.Group) ([]*observedGang, error) {
	candidates, owners := group.Workloads, []types.UID(nil)
	if group.MultiWorkload {
		var err error
		if candidates, owners, err = r.findCandidates(ctx, group); err != nil {
			return nil, err
		}
	}
	var members []member
	for _, w := range candidates {
		if p.request.Gang != "" {
			w = w.DeepCopy() // listGangs does not copy several workloads
		}
		m, err := r.readMember(w)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if group.MultiWorkload {
		g := newMultiWorkloadGang(p, members, owners)
		if len(candidates) < len(group.Workloads) {
			g.ignoreWorkloads(g.StateSource != nil || len(owners) > 0)
		}
		if g.firstResult() != nil {
			return []*observedGang{g}, nil
		}
		members = g.Members
	}
	var out []*observedGang
	for _, m := range members {
		out = append(out, newSingleWorkloadGang(ctx, p, m))
	}
	return out, nil
}

// newMultiWorkloadGang returns the gang of several workloads with the same gang name. Workloads that
// are not members of the gang are kept separately. serviceOwners is an argument of [roster.Identify].
func newMultiWorkloadGang(p *pass, workloads []member, serviceOwners []types.UID) *observedGang {
	list := roster.New(workloads, func(m member) roster.Member { return m.Member }, serviceOwners)
	g := &observedGang{pass: p, multiWorkload: true, Roster: list}
	if first := g.firstResult(); first != nil {
		last := g.lastState()
		first.Gang = last.RestoreRules(p.session.memory.RestoreRules(first.Gang, listUIDs(g.Members)))
		g.memberStates = lifecycle.ObserveMembers(first.Gang, g.observeWorkload)
		if !last.Phase.Terminal() {
			g.memberStates = g.memberStates.RestoreCompleted(last.CompletedMembers)
		}
	}
	return g
}

// listUIDs returns the UIDs of workloads.
func listUIDs(workloads []member) []types.UID {
	var uids []types.UID
	for _, m := range workloads {
		uids = append(uids, m.Meta().UID)
	}
	return uids
}

// observeWorkload returns the observation of the member with the name of a workload, and false if there
// is none.
func (g *observedGang) observeWorkload(name string) (lifecycle.Observation, bool) {
	if m := g.findMember(name); m != nil {
		return m.observeStatus(), true
	}
	return lifecycle.Observation{}, false
}

// findMember returns the member with the name of a workload; nil if it does not exist.
func (g *observedGang) findMember(workload string) *member {
	i := slices.IndexFunc(g.Members, func(m member) bool { return m.Meta().Name == workload })
	if i < 0 {
		return nil
	}
	return &g.Members[i]
}

// newSingleWorkloadGang returns the gang of one workload. If an injected workload cannot be parsed,
// another release admitted it or a user edited it. Its child objects exist already, and a retry does
// not help.
func newSingleWorkloadGang(ctx context.Context, p *pass, m member) *observedGang {
	observed := m.observeStatus()
	g := &observedGang{pass: p, memberStates: lifecycle.NewSingleMember(observed)}
	g.Members = []member{m}
	if m.Err != nil {
		log.FromContext(ctx).V(1).Info("Workload does not describe a valid gang", "errors", injectors.DenialCauses(m.Err))
	}
	if m.Result != nil {
		find := func(string) (lifecycle.Observation, bool) { return observed, true }
		g.memberStates = lifecycle.ObserveMembers(m.Result.Gang, find)
	}
	return g
}

// readMember parses one workload. An error is temporary; Err of the result is not.
func (r *Reconciler) readMember(w gang.Workload) (member, error) {
	managedByQueue, err := r.isManagedByQueue(w)
	if err != nil {
		return member{}, err
	}
	m := member{Member: roster.Member{Workload: w}, managedByQueue: managedByQueue}
	m.contentDigest = cmp.Or(w.Meta().Annotations[annotationDigest], w.Meta().ResourceVersion)
	delete(w.Meta().Annotations, annotationDigest)
	if m.IsInjected() {
		m.Member = roster.ReadMember(r.Engine, w)
	}
	return m, nil
}

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
