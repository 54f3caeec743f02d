package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// Indexes of the cache: workloads by the name of their gang, all of them and those
// that call themselves one of several.
const (
	indexGang    = "rollcall.gang"
	indexSeveral = "rollcall.gang.several"
)

// party is a gang as one look finds it.
type party struct {
	look *look
	// members are its workloads, in the order of their ranks; at least one.
	members []member
	// roll are the members that it should have.
	roll gang.Roll
	// hanging is a pod that was told to go and does not; nil when there is none. forName is
	// true when no new one is made before it is gone.
	hanging *corev1.Pod
	forName bool
	// several is true for a gang of several workloads.
	several bool
}

// member is one workload of it.
type member struct {
	gang.Workload
	// result is what the workload was read as; nil when it could not be, or when it was
	// admitted without Rollcall.
	result *injectors.Result
	// unread says why it could not be read.
	unread error
	// queued is true when a queue lets it go once Rollcall holds it back no more.
	queued bool
	// pods is how many it has that nobody told to go.
	pods int
}

// observe reads its status.
func (m member) observe() gang.Observation {
	seen := gang.Observe(m.Workload)
	seen.Queued = m.queued
	return seen
}

func (m member) injected() bool {
	_, ok := m.Meta().Annotations[gang.AnnotationInjected]
	return ok
}

// object is the workload for a client.
func (m member) object() client.Object { return m.Object().(client.Object) }

// lead is the first member that can be read; nil when there is none. The others say
// the same, or the gang is told that they do not.
func (p *party) lead() *injectors.Result {
	for _, m := range p.members {
		if m.result != nil {
			return m.result
		}
	}
	return nil
}

// first is the first member that was admitted by Rollcall, else the first.
func (p *party) first() member {
	return p.members[max(0, slices.IndexFunc(p.members, member.injected))]
}

// state is the gang's state as it was last written: that of its first member. It is
// written to all of them, to that one first, and whoever comes later begins anew. The
// phase is the annotation's, as all else: anybody can write the label, which is for
// selectors, and stands alone before the first look.
func (p *party) state() gang.State {
	first := p.first()
	s := first.told().State()
	s.Phase = cmp.Or(s.Phase, gang.PhaseOf(first.Workload))
	if s.Begun.IsZero() {
		s.Begun = first.Meta().CreationTimestamp.Time
	}
	return s
}

// lifecycle is what the gang's user wants of its life, as its first member says it.
func (p *party) lifecycle() gang.Lifecycle {
	if lead := p.lead(); lead != nil {
		return lead.Gang.Lifecycle
	}
	return gang.Lifecycle{Restart: gang.RestartPod, Clean: gang.CleanNone} // nobody can tell
}

// index tells the cache the names of gangs, so that the members of one are found
// without a look at all others.
func (r *Reconciler) index(ctx context.Context, indexer client.FieldIndexer) error {
	nameIf := func(is func(gang.Workload) bool) client.IndexerFunc {
		return func(o client.Object) []string {
			if w, err := gang.WorkloadOf(o); err == nil && is(w) {
				return []string{gang.NameOf(w, r.Engine.Frameworks())}
			}
			return nil
		}
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexOwner, ownerOf); err != nil {
		return fmt.Errorf("indexing pods by their owner: %w", err)
	}
	for name, is := range map[string]func(gang.Workload) bool{
		indexGang:    func(gang.Workload) bool { return true },
		indexSeveral: gang.Workload.Several,
	} {
		for _, o := range []client.Object{&batchv1.Job{}, &appsv1.StatefulSet{}} {
			if err := indexer.IndexField(ctx, o, name, nameIf(is)); err != nil {
				return fmt.Errorf("indexing %T by %s: %w", o, name, err)
			}
		}
	}
	return nil
}

// list reads workloads from an index of the cache; of all namespaces, if none is given.
func (r *Reconciler) list(ctx context.Context, index, namespace, name string) ([]gang.Workload, error) {
	var jobs batchv1.JobList
	var sets appsv1.StatefulSetList
	var out []gang.Workload
	options := []client.ListOption{client.InNamespace(namespace), client.MatchingFields{index: name}}
	if err := r.Client.List(ctx, &jobs, options...); err != nil {
		return nil, fmt.Errorf("listing the Jobs of the gang %s: %w", name, err)
	}
	for i := range jobs.Items {
		out = append(out, gang.Workload{Job: &jobs.Items[i]})
	}
	if err := r.Client.List(ctx, &sets, options...); err != nil {
		return nil, fmt.Errorf("listing the StatefulSets of the gang %s: %w", name, err)
	}
	for i := range sets.Items {
		out = append(out, gang.Workload{StatefulSet: &sets.Items[i]})
	}
	return out, nil
}

// requests names the gangs to look at when a workload moved: its own, and that of
// which it should be a member by its name.
func (r *Reconciler) requests(ctx context.Context, o client.Object) []Request {
	w, err := gang.WorkloadOf(o)
	if err != nil {
		return nil // no other kind is watched
	}
	namespace, name := o.GetNamespace(), gang.NameOf(w, r.Engine.Frameworks())
	out := []Request{{Namespace: namespace, Kind: w.Kind(), Name: o.GetName()}}
	if r.among(ctx, w) {
		out[0] = Request{Namespace: namespace, Gang: name}
	}
	if other := gang.NamedFor(w, r.Engine.Frameworks()); other != "" && other != name && r.several(ctx, namespace, other) {
		out = append(out, Request{Namespace: namespace, Gang: other})
	}
	return out
}

// requestsOfService names the gangs to look at when a Service moved.
func (r *Reconciler) requestsOfService(ctx context.Context, o client.Object) []Request {
	workloads, err := r.list(ctx, indexGang, o.GetNamespace(), o.GetLabels()[gang.LabelGang])
	if err != nil {
		log.FromContext(ctx).Error(err, "Finding the gang of a Service")
	}
	var out []Request
	for _, w := range workloads {
		for _, req := range r.requests(ctx, w.Object().(client.Object)) {
			if !slices.Contains(out, req) {
				out = append(out, req)
			}
		}
	}
	return out
}

// several reports whether there is a gang of several of that name.
func (r *Reconciler) several(ctx context.Context, namespace, name string) bool {
	workloads, err := r.list(ctx, indexSeveral, namespace, name)
	if err != nil {
		log.FromContext(ctx).Error(err, "Finding a gang of several")
	}
	return len(workloads) > 0
}

// among reports whether a workload is looked at together with those of a gang of several.
func (r *Reconciler) among(ctx context.Context, w gang.Workload) bool {
	fs := r.Engine.Frameworks()
	return w.Several() || gang.Joins(w, fs) && r.several(ctx, w.Meta().Namespace, gang.NameOf(w, fs))
}

// gather reads the workloads that a request names, without those that are going or
// that are not ours. One that is going and has its verdict still gives it: a Job with a time
// to live of 0 is told to go in the moment in which it ends, and the rest of its gang would
// never hear of that end.
func (r *Reconciler) gather(ctx context.Context, req Request) ([]gang.Workload, error) {
	var workloads []gang.Workload
	if req.Gang != "" {
		var err error
		if workloads, err = r.list(ctx, indexGang, req.Namespace, req.Gang); err != nil {
			return nil, err
		}
		workloads = slices.DeleteFunc(workloads, func(w gang.Workload) bool { return !gang.Joins(w, r.Engine.Frameworks()) })
	} else {
		w, ok := gang.NewWorkload(req.Kind)
		if !ok {
			return nil, fmt.Errorf("following %q: no kind of workload", req.Kind)
		}
		key := client.ObjectKey{Namespace: req.Namespace, Name: req.Name}
		if err := r.Client.Get(ctx, key, w.Object().(client.Object)); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		if r.among(ctx, w) {
			return nil, nil // it has become one of them, and they are looked at together
		}
		workloads = append(workloads, w)
	}
	return slices.DeleteFunc(workloads, func(w gang.Workload) bool {
		seen := gang.Observe(w)
		return !w.Labelled() || w.OptedOut() || w.Meta().DeletionTimestamp != nil && !seen.Complete && !seen.Failed
	}), nil
}

// party puts the workloads of a gang of several together. It is false when they are
// none: none of them says so, or none can be read.
func (r *Reconciler) party(l *look, workloads []gang.Workload) (*party, bool) {
	if !slices.ContainsFunc(workloads, gang.Workload.Several) {
		return nil, false
	}
	p := &party{look: l, several: true}
	for _, w := range workloads {
		p.members = append(p.members, r.read(w))
	}
	offset := func(m member) int32 {
		if m.result == nil {
			return 0
		}
		return m.result.Gang.Offset
	}
	slices.SortFunc(p.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(offset(a), offset(b)), cmp.Compare(a.Meta().Name, b.Meta().Name), cmp.Compare(a.Kind(), b.Kind()))
	})
	lead := p.lead()
	if lead == nil {
		return nil, false
	}
	p.roll = gang.Call(lead.Gang, func(name string) (gang.Observation, bool) {
		for _, m := range p.members {
			if m.Meta().Name == name {
				return m.observe(), true
			}
		}
		return gang.Observation{}, false
	})
	return p, true
}

// read reads one workload.
func (r *Reconciler) read(w gang.Workload) member {
	m := member{Workload: w, queued: r.queued(w)}
	if !m.injected() {
		return m
	}
	if result, err := r.Engine.Describe(w); err != nil {
		m.unread = err
	} else {
		m.result = &result
	}
	return m
}

// alone is a gang of one workload.
func (r *Reconciler) alone(ctx context.Context, l *look, w gang.Workload) *party {
	p := &party{look: l, members: []member{r.read(w)}}
	seen := p.members[0].observe()
	p.roll = gang.Alone(seen)
	if err := p.members[0].unread; err != nil {
		// Admitted by another release, or edited since: its children are made
		// already, and trying again cannot help.
		log.FromContext(ctx).V(1).Info("Not a gang as it stands", "causes", injectors.Causes(err))
	} else if result := p.members[0].result; result != nil {
		p.roll = gang.Call(result.Gang, func(string) (gang.Observation, bool) { return seen, true })
	}
	return p
}
