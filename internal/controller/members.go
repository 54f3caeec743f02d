package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
)

// observedGang is a gang as one pass observes it. It belongs to the goroutine of the pass.
type observedGang struct {
	pass *pass
	// members contains the existing workloads in the order of their ranks. It is never empty.
	members []member
	// memberStates contains the members that the gang must have, whether they exist or not.
	memberStates lifecycle.Members
	// stuckPod is a pod whose termination is overdue; nil if there is none.
	stuckPod *corev1.Pod
	// blocksReplacement is true if the workload of stuckPod creates no new pod before stuckPod is
	// deleted.
	blocksReplacement bool
	// multiWorkload is true for a gang of several workloads.
	multiWorkload bool
}

// member is an existing workload of a gang.
type member struct {
	gang.Workload
	// result is the parsed workload. It is nil if the workload could not be parsed, or if it was
	// admitted without injection.
	result *injectors.Result
	// readErr is the error with which the workload could not be parsed.
	readErr error
	// managedByQueue is true if a queue resumes the workload after Rollcall releases it.
	managedByQueue bool
	// nonTerminatingPods is the number of pods that are not being deleted. takeSnapshot sets it.
	nonTerminatingPods int
	// firstDeletedPod is the result of findFirstDeletedPod, which untrackDeletedPod untracks.
	// takeSnapshot sets it.
	firstDeletedPod *corev1.Pod
}

// observeStatus returns the observation of the workload.
func (m member) observeStatus() lifecycle.Observation {
	observed := lifecycle.Observe(m.Workload)
	observed.ManagedByQueue = m.managedByQueue
	return observed
}

// lastStatus returns the status that was last written to the member.
func (m member) lastStatus() lifecycle.Status { return lifecycle.ReadStatus(m.Workload) }

// isInjected reports whether admission injected the workload.
func (m member) isInjected() bool {
	_, ok := m.Meta().Annotations[gang.AnnotationInjected]
	return ok
}

// clientObject returns the workload as a client needs it.
func (m member) clientObject() client.Object { return m.Object().(client.Object) }

// rankOffset returns the rank of the member's first pod; 0 if the workload could not be parsed.
func (m member) rankOffset() int32 {
	if m.result == nil {
		return 0
	}
	return m.result.Gang.RankOffset
}

// firstResult returns the first member that could be parsed; nil if there is none. The settings of the
// gang are equal in all members, or the gang has the reason MemberConflict.
func (g *observedGang) firstResult() *injectors.Result {
	for _, m := range g.members {
		if m.result != nil {
			return m.result
		}
	}
	return nil
}

// primaryMember returns the member whose status is the state of the gang: the first injected member,
// or the first member if none is injected.
func (g *observedGang) primaryMember() member {
	return g.members[max(0, slices.IndexFunc(g.members, member.isInjected))]
}

func (g *observedGang) isPrimaryMember(m member) bool {
	return m.Meta().UID == g.primaryMember().Meta().UID
}

// lastState returns the state of the gang that was last written. The phase is that of the annotation,
// because anybody can write the label. Only before the first pass is the label the only source.
func (g *observedGang) lastState() lifecycle.State {
	primary := g.primaryMember()
	state := primary.lastStatus().State
	state.Phase = cmp.Or(state.Phase, lifecycle.ReadPhase(primary.Workload))
	if state.AttemptStartTime.IsZero() {
		state.AttemptStartTime = primary.Meta().CreationTimestamp.Time
	}
	return state
}

// gangPolicies returns the policies of the gang. If no member could be parsed, Rollcall neither
// restarts the gang nor deletes pods.
func (g *observedGang) gangPolicies() gang.Policies {
	if first := g.firstResult(); first != nil {
		return first.Gang.Policies
	}
	return gang.Policies{RestartPolicy: gang.RestartPolicyPod, CleanPodPolicy: gang.CleanPodPolicyNone}
}

// listGangs lists the workloads of a request and groups them into gangs. It excludes workloads that
// are being deleted and have not finished. A Job with a time to live of 0 is deleted as soon as it
// finishes, and the other members of its gang still need its result.
func (r *Reconciler) listGangs(ctx context.Context, req Request) ([]gang.Group, error) {
	list := r.listSingleWorkload
	if req.Gang != "" {
		list = r.listMultiWorkloadMembers
	}
	workloads, err := list(ctx, req)
	if err != nil {
		return nil, err
	}
	workloads = slices.DeleteFunc(workloads, func(w gang.Workload) bool {
		observed := lifecycle.Observe(w)
		return w.Meta().DeletionTimestamp != nil && !observed.Complete && !observed.Failed
	})
	return gang.GroupWorkloads(workloads, r.Engine.Frameworks()), nil
}

// listMultiWorkloadMembers lists the workloads of a request for a multi-workload gang.
func (r *Reconciler) listMultiWorkloadMembers(ctx context.Context, req Request) ([]gang.Workload, error) {
	workloads, err := r.listWorkloads(ctx, indexGang, req.Namespace, req.Gang)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(workloads, func(w gang.Workload) bool {
		return !gang.IsMultiWorkloadMember(w, r.Engine.Frameworks())
	}), nil
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
func (r *Reconciler) observeGangs(ctx context.Context, p *pass, group gang.Group) []*observedGang {
	if group.MultiWorkload {
		if g, ok := r.newMultiWorkloadGang(p, group.Workloads); ok {
			return []*observedGang{g}
		}
	}
	var out []*observedGang
	for _, w := range group.Workloads {
		out = append(out, r.newSingleWorkloadGang(ctx, p, w))
	}
	return out
}

// newMultiWorkloadGang returns the gang of several workloads. It returns false if no workload can be
// parsed.
func (r *Reconciler) newMultiWorkloadGang(p *pass, workloads []gang.Workload) (*observedGang, bool) {
	g := &observedGang{pass: p, multiWorkload: true}
	for _, w := range workloads {
		g.members = append(g.members, r.readMember(w))
	}
	slices.SortFunc(g.members, func(a, b member) int {
		return cmp.Or(
			cmp.Compare(a.rankOffset(), b.rankOffset()),
			cmp.Compare(a.Meta().Name, b.Meta().Name),
			cmp.Compare(a.Kind(), b.Kind()),
		)
	})
	first := g.firstResult()
	if first == nil {
		return nil, false
	}
	g.memberStates = lifecycle.ObserveMembers(first.Gang, func(name string) (lifecycle.Observation, bool) {
		for _, m := range g.members {
			if m.Meta().Name == name {
				return m.observeStatus(), true
			}
		}
		return lifecycle.Observation{}, false
	})
	return g, true
}

// newSingleWorkloadGang returns the gang of one workload. If an injected workload cannot be parsed,
// another release admitted it or a user edited it. Its child objects exist already, and a retry does
// not help.
func (r *Reconciler) newSingleWorkloadGang(ctx context.Context, p *pass, w gang.Workload) *observedGang {
	m := r.readMember(w)
	observed := m.observeStatus()
	g := &observedGang{pass: p, members: []member{m}, memberStates: lifecycle.NewSingleMember(observed)}
	if m.readErr != nil {
		log.FromContext(ctx).V(1).Info("Workload does not describe a valid gang", "errors", injectors.DenialCauses(m.readErr))
	}
	if m.result != nil {
		find := func(string) (lifecycle.Observation, bool) { return observed, true }
		g.memberStates = lifecycle.ObserveMembers(m.result.Gang, find)
	}
	return g
}

// readMember parses one workload.
func (r *Reconciler) readMember(w gang.Workload) member {
	m := member{Workload: w, managedByQueue: r.isManagedByQueue(w)}
	if !m.isInjected() {
		return m
	}
	result, err := r.Engine.Describe(w)
	if err != nil {
		m.readErr = err
		return m
	}
	m.result = &result
	return m
}
