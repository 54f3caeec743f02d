package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/lifecycle"
)

// queuedGang is the place of a gang of several workloads in a queue of Kueue. For the state of the gang, Rollcall acts
// like a user that suspends and resumes the workloads.
type queuedGang struct {
	// queue is the name of the queue; empty if the gang is in no queue.
	queue string
	// workload is the Workload of the gang; nil if there is none.
	workload *unstructured.Unstructured
	status   kueue.Status
	// isOutdated is true if the Workload is of an earlier run of the gang, or of workloads with other sizes or requests.
	// It is then deleted, and the gang waits again.
	isOutdated bool
	// isUnknown is true if the Workload cannot be read. The gang then stays as it is.
	isUnknown bool
	// problem describes why the gang has no Workload; empty if it has, or if it will be created.
	problem string
}

// isQueued reports whether all workloads of the gang wait in a queue as one.
func (g *observedGang) isQueued() bool { return g.queued.queue != "" }

// observeQueue reads the Workload of a gang in a queue.
func (r *Reconciler) observeQueue(ctx context.Context, g *observedGang) error {
	first := g.firstResult()
	if first == nil || first.Gang.Queue == "" {
		return nil
	}
	g.queued.queue = first.Gang.Queue
	isServed, err := r.servesKind(kueueWorkloadKind, kueue.Version.Version)
	switch {
	case err != nil:
		return err
	case !isServed:
		g.queued.problem = "The API server does not serve Workloads of Kueue 0.15 or later"
	case !r.QueueGangs:
		g.queued.problem = "Rollcall does not create Workloads of Kueue in this cluster"
	}
	if g.queued.isUnknown = g.queued.problem != ""; g.queued.isUnknown {
		g.pass.requeueAfter(obstacleRetryInterval)
		return nil
	}
	w, err := r.readQueueWorkload(ctx, g)
	if err != nil {
		return err
	}
	if w != nil && !isChildOf(w, first.Gang.Name) {
		g.queued.problem = fmt.Sprintf("The Workload %s is not of this gang. Delete it, or name the gang with the label %s",
			w.GetName(), gang.LabelGang)
		g.pass.requeueAfter(obstacleRetryInterval)
		w = nil
	}
	g.queued.workload = w
	if g.queued.status, err = kueue.Read(w); err != nil {
		return err
	}
	if g.queued.isOutdated = g.isQueueOutdated(); g.queued.isOutdated {
		g.queued.status.Admitted = false
	}
	for i := range g.Members {
		g.Members[i].managedByQueue = !g.queued.status.Admitted
	}
	for i := range g.memberStates {
		g.memberStates[i].Observed.ManagedByQueue = g.memberStates[i].Exists && !g.queued.status.Admitted
	}
	return nil
}

// readQueueWorkload returns the Workload of a gang; nil if there is none. A missing Workload suspends the gang, so the
// API server confirms it.
func (r *Reconciler) readQueueWorkload(ctx context.Context, g *observedGang) (*unstructured.Unstructured, error) {
	key := client.ObjectKey{Namespace: g.pass.request.Namespace, Name: g.firstResult().Gang.Name}
	if w := r.queueWatch.find(key); w != nil {
		return w, nil
	}
	w, err := r.getObject(ctx, kueue.Version.WithKind(kueue.Kind), key)
	if w != nil {
		kueue.Trim(w)
	}
	return w, err
}

// getObject reads an object from the API server; nil if there is none.
func (r *Reconciler) getObject(
	ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey,
) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	if err := r.APIReader.Get(ctx, key, out); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the %s %s: %w", kind.Kind, key.Name, err)
	} else if err == nil {
		return out, nil
	}
	return nil, nil
}

// isQueueOutdated returns the value of queuedGang.isOutdated.
func (g *observedGang) isQueueOutdated() bool {
	w, state := g.queued.workload, g.lastState()
	if w == nil || state.Phase.Terminal() {
		return false
	}
	isOwner := func(m member) bool { return isOwnedBy(w, m.Meta().UID) }
	return g.queued.status.Finished || w.GetDeletionTimestamp() != nil || !slices.ContainsFunc(g.Members, isOwner) ||
		!kueue.IsFor(w, g.podSets(g.Members), len(g.memberStates), g.queued.queue)
}

// podSets returns the pods of the gang, with the templates of members.
func (g *observedGang) podSets(members []member) []kueue.PodSet {
	var out []kueue.PodSet
	for _, s := range g.memberStates {
		i := slices.IndexFunc(members, func(m member) bool { return m.Meta().Name == s.WorkloadName })
		if i < 0 {
			continue // completed and deleted
		}
		set := kueue.PodSet{Name: s.Role, Count: s.Observed.Size, Template: *members[i].Template()}
		if set.Count == 0 { // suspended
			set.Count = s.Size
		}
		out = append(out, set)
	}
	return out
}

// followQueue suspends a gang that is not admitted, and gives its quota back when it has no pods. It returns false if
// the pass must not decide about the gang.
func (r *Reconciler) followQueue(ctx context.Context, g *observedGang, state lifecycle.State) (bool, error) {
	if !g.isQueued() || g.queued.isUnknown || g.queued.status.Admitted || state.Phase.Terminal() {
		return true, nil
	}
	if slices.ContainsFunc(g.Members, member.isSuspendable) {
		return false, r.suspendForQueue(ctx, g)
	}
	if !g.hasNoPods() {
		return true, nil
	}
	switch {
	case g.queued.status.MustRelease:
		return true, r.changeQueueStatus(ctx, g, kueue.Release)
	case g.queued.isOutdated:
		if g.queued.workload.GetDeletionTimestamp() != nil {
			return true, nil
		}
		return true, r.deleteChild(ctx, "Workload", g.queued.workload)
	case g.queued.workload == nil && g.queued.problem == "" && len(g.memberStates.Missing()) == 0 &&
		state.Phase == lifecycle.Suspended:
		return true, r.createQueueWorkload(ctx, g)
	}
	return true, nil
}

// suspendForQueue suspends all members of a gang that is not admitted.
func (r *Reconciler) suspendForQueue(ctx context.Context, g *observedGang) error {
	for _, m := range g.Members {
		if !m.isSuspendable() {
			continue
		}
		err := r.resetJobStatus(ctx, m, actionSuspend)
		if err == nil {
			suspended := m.DeepCopy()
			attempt.Suspend(suspended)
			err = r.changeSuspension(ctx, g, m.Workload, suspended)
		}
		if err != nil && !errors.Is(err, errJobStatusReset) { // the next pass suspends the member
			return err
		}
	}
	return nil
}

// isSuspendable reports whether a member has pods that its queue can stop.
func (m member) isSuspendable() bool {
	return m.IsInjected() && !m.IsSuspended() && !m.observeStatus().HasResult() && !m.IsManagedExternally()
}

// hasNoPods reports whether no member has pods that use quota.
func (g *observedGang) hasNoPods() bool {
	return !g.observed.PodsTerminating && !slices.ContainsFunc(g.memberStates, func(s lifecycle.MemberState) bool {
		return s.Exists && !s.Observed.SuspensionObserved && !s.Observed.HasResult()
	})
}

// startFromQueue resumes all members of a gang that was admitted, and reports that the gang is ready or has finished.
// state is the state that was written last. It does nothing before all members have their status.
func (r *Reconciler) startFromQueue(ctx context.Context, g *observedGang, state, next lifecycle.State) error {
	status := g.queued.status
	switch {
	case !g.isQueued() || g.queued.workload == nil || g.hasStaleMember():
	case next.Phase.Terminal() && !status.Finished && g.hasNoPods():
		return r.changeQueueStatus(ctx, g, func(w *unstructured.Unstructured, now time.Time) error {
			return kueue.Finish(w, next.Phase == lifecycle.Succeeded, next.Describe(g.gangPolicies(), g.memberStates), now)
		})
	case !status.Admitted:
	case next.Phase == lifecycle.Running && !status.ReportsReady:
		return r.changeQueueStatus(ctx, g, kueue.ReportReady)
	case next.Phase == lifecycle.Suspended && state.Phase == lifecycle.Suspended && !g.observed.PodsTerminating:
		return r.resumeFromQueue(ctx, g, next)
	}
	return nil
}

// resumeFromQueue resumes the suspended members of an admitted gang on the nodes of their flavors.
func (r *Reconciler) resumeFromQueue(ctx context.Context, g *observedGang, next lifecycle.State) error {
	suspended := slices.DeleteFunc(slices.Clone(g.Members), func(m member) bool {
		observed := m.observeStatus()
		return !m.IsInjected() || !m.IsSuspended() || observed.SuspendedByRollcall || observed.HasResult()
	})
	if len(suspended) == 0 || slices.ContainsFunc(suspended, member.isResetPending) {
		return nil
	}
	return useWholes(ctx, suspended, r.readForQueue, func(whole []member) error {
		return r.resumeWholes(ctx, g, whole, next)
	})
}

// resumeWholes resumes the given whole members.
func (r *Reconciler) resumeWholes(ctx context.Context, g *observedGang, whole []member, next lifecycle.State) error {
	resumed, err := r.placeInQueue(ctx, g, whole)
	if errors.Is(err, kueue.ErrUnsupported) {
		return r.changeQueueStatus(ctx, g, func(w *unstructured.Unstructured, now time.Time) error {
			return kueue.Deactivate(w, err, now)
		})
	} else if err != nil {
		return err
	}
	for i, m := range whole {
		if !attempt.Resume(resumed[i], next.Attempt) {
			continue
		}
		if err := r.changeSuspension(ctx, g, m.Workload, resumed[i]); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("Resumed the gang that its queue admitted", "queue", g.queued.queue, "attempt", next.Attempt)
	return nil
}

// isResetPending reports whether the status of a suspended member still describes its last attempt.
func (m member) isResetPending() bool {
	isReset := m.Job == nil || m.Job.Status.StartTime == nil && (!m.restartsCompleted() || m.Job.Status.Succeeded == 0)
	return !isReset || !m.observeStatus().SuspensionObserved
}

// changeSuspension writes a suspended or resumed member.
func (r *Reconciler) changeSuspension(ctx context.Context, g *observedGang, before, after gang.Workload) error {
	version := before.Meta().ResourceVersion
	patch := client.MergeFromWithOptions(before.Object().(client.Object), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after.Object().(client.Object), patch, FieldOwner); err != nil {
		return fmt.Errorf("suspending or resuming %s for its queue: %w", before.Meta().Name, err)
	}
	put(&g.pass.session.writtenVersions, before.Meta().UID, version)
	return nil
}

// changeQueueStatus writes the status of the Workload of a gang.
func (r *Reconciler) changeQueueStatus(
	ctx context.Context, g *observedGang, change func(*unstructured.Unstructured, time.Time) error,
) error {
	changed := g.queued.workload.DeepCopy()
	if err := change(changed, r.Clock.Now()); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(g.queued.workload, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch, FieldOwner); err != nil {
		return fmt.Errorf("writing the status of the Workload %s: %w", changed.GetName(), err)
	}
	return nil
}

// queueMessageInterval is the minimum interval at which the status of a waiting gang follows the words of its queue,
// because each change costs a write per member.
const queueMessageInterval = time.Minute

// queueStatus returns why a gang waits for its queue; the zero value if it does not.
func (r *Reconciler) queueStatus(g *observedGang, next lifecycle.State) lifecycle.Status {
	last := g.primaryMember().lastStatus()
	switch {
	case !g.isQueued() || next.Phase != lifecycle.Suspended:
		return lifecycle.Status{}
	case g.queued.problem != "":
		return lifecycle.Status{Reason: gang.ReasonQueueUnavailable, Message: g.queued.problem}
	case last.Reason == gang.ReasonWaitingForQueue && g.queued.status.Admitted:
		return lifecycle.Status{Reason: last.Reason, Message: last.Message} // until the gang is resumed
	case g.queued.status.Admitted || g.queued.status.Message == "":
		return lifecycle.Status{}
	}
	s, now := g.pass.session, r.Clock.Now()
	message := fmt.Sprintf("The gang waits in the queue %s: %s", g.queued.queue, g.queued.status.Message)
	if g.queued.status.Unsupported {
		return lifecycle.Status{Reason: gang.ReasonQueueUnavailable, Message: message}
	}
	if last.Reason == gang.ReasonWaitingForQueue && last.Message != message {
		if remaining := s.queueMessageTime.Add(queueMessageInterval).Sub(now); remaining > 0 {
			g.pass.requeueAfter(remaining)
			message = last.Message
		}
	}
	if message != last.Message {
		s.queueMessageTime = now
	}
	return lifecycle.Status{Reason: gang.ReasonWaitingForQueue, Message: message}
}
