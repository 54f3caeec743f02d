package controller

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/lifecycle"
)

// isolationDelay is how long a restart waits after its Service was limited to the next attempt: until the
// EndpointSlices are written, and DNS caches have dropped the old addresses. The CoreDNS of kubeadm permits 30 seconds
// (ttl 30 in its Corefile), which NodeLocal DNSCache uses.
const isolationDelay = 30 * time.Second

// selectsAttempt reports whether a Service selects only the pods of an attempt.
func selectsAttempt(service *corev1.Service, number int32) bool {
	return service.Spec.Selector[gang.LabelAttempt] == strconv.Itoa(int(number))
}

// observeIsolation observes whether a restart can continue while a pod of the last attempt may still run. The
// Service publishes terminating pods, and new ranks could connect to the old rank 0. So the Service must
// select only the pods of the next attempt, and for [isolationDelay] already. A gang that must not restart while the
// node of a pod is lost waits for all pods. A gang that does not restart waits for no pod.
func (r *Reconciler) observeIsolation(ctx context.Context, g *observedGang, s lifecycle.State, now time.Time) error {
	session, first := g.pass.session, g.firstResult()
	if s.Phase != lifecycle.Restarting || first == nil {
		session.isolationTime, g.ignoresOverduePods = time.Time{}, true
		return nil
	}
	key := client.ObjectKey{Namespace: first.Gang.Namespace, Name: first.Gang.ServiceName}
	service, err := r.findService(ctx, key)
	if err != nil {
		return err
	}
	g.isIsolated = service != nil && isGangService(service, first.Gang.Name) && selectsAttempt(service, s.Attempt)
	remaining := lifecycle.RemainingDelay(&session.isolationTime, g.isIsolated, isolationDelay, now)
	g.ignoresOverduePods = g.isIsolated && remaining == 0 && first.Gang.RestartRules.RestartOnNodeLoss
	g.pass.requeueAfter(remaining)
	return nil
}

// isolateAttempt sets the attempt in the selector of want, the desired Service of a gang. have is the existing
// Service. Afterward, each restart selects the next attempt, because a stuck pod may exist for days.
func (r *Reconciler) isolateAttempt(
	ctx context.Context, g *observedGang, have, want *corev1.Service, next lifecycle.State,
) error {
	_, selectsOne := have.Spec.Selector[gang.LabelAttempt]
	mustSelectOne := g.mayMeetNextAttempt(next)
	if !selectsOne && !mustSelectOne || !g.hasAttemptLabels() {
		return nil
	}
	shared, err := r.isSharedByActiveGang(ctx, g, have)
	if shared && mustSelectOne {
		g.pass.requeueAfter(obstacleRetryInterval) // the end of another gang causes no pass
	}
	if err != nil || shared {
		return err
	}
	number := g.templateAttempt()
	if g.memberStates.AnySuspended() {
		number = strconv.Itoa(int(next.Attempt))
	}
	if number != "" {
		want.Spec.Selector = maps.Clone(want.Spec.Selector)
		want.Spec.Selector[gang.LabelAttempt] = number
	}
	return nil
}

// mayMeetNextAttempt reports whether the next attempt can start while pods of the last one may still run. A restart
// does not wait for a stuck pod. A queue or a user that resumes the members waits for no pod.
func (g *observedGang) mayMeetNextAttempt(next lifecycle.State) bool {
	if next.Phase == lifecycle.Restarting {
		return g.observed.StuckPod != nil && g.gangPolicies().RestartOnNodeLoss && g.memberStates.AllSuspended()
	}
	return g.isSuspendedWithPods(next)
}

// isSuspendedWithPods reports whether the pods of a suspended gang may still run, because the controllers of the
// members have not terminated them, or because their node is lost. The phase of such a gang must not become Suspended
// before its Service selects the next attempt: the user or the queue may resume the members then.
func (g *observedGang) isSuspendedWithPods(next lifecycle.State) bool {
	isActive := func(m member) bool { return !m.IsSuspended() }
	isAnyLeft := !g.observed.AllPodsTerminated || g.observed.TerminatingPods > 0 // as those on a lost node
	return next.Phase == lifecycle.Suspended && g.observed.HasPods && isAnyLeft &&
		!slices.ContainsFunc(g.Members, isActive)
}

// recordIsolation records that the Service of a restarting gang selects the next attempt. The next pass is
// scheduled, because the Service causes none.
func (r *Reconciler) recordIsolation(g *observedGang, service *corev1.Service, next lifecycle.State) {
	if g.isIsolated || next.Phase != lifecycle.Restarting || !selectsAttempt(service, next.Attempt) {
		return
	}
	g.isIsolated = true
	g.pass.session.isolationTime = r.Clock.Now()
	g.pass.requeueAfter(isolationDelay)
}

// hasAttemptLabels reports whether the pods of all members carry the number of their attempt. Those of a
// StatefulSet do not.
func (g *observedGang) hasAttemptLabels() bool {
	return !slices.ContainsFunc(g.Members, func(m member) bool { return m.Job == nil || !attempt.HasLabel(m.Workload) })
}

// templateAttempt returns the attempt in the templates of all members; empty if they differ. That is the
// attempt of the new pods, whoever resumed the members.
func (g *observedGang) templateAttempt() string {
	first := g.Members[0].Template().Labels[gang.LabelAttempt]
	if slices.ContainsFunc(g.Members, func(m member) bool { return m.Template().Labels[gang.LabelAttempt] != first }) {
		return ""
	}
	return first
}

// isSharedByActiveGang reports whether another gang of the same name, which has not finished, owns the Service,
// too. Its pods have other attempts.
func (r *Reconciler) isSharedByActiveGang(ctx context.Context, g *observedGang, service *corev1.Service) (bool, error) {
	own := listUIDs(g.Members)
	isOther := func(o metav1.OwnerReference) bool { return !slices.Contains(own, o.UID) }
	if !slices.ContainsFunc(service.OwnerReferences, isOther) {
		return false, nil
	}
	workloads, err := r.listWorkloads(ctx, indexGang, service.Namespace, service.Labels[gang.LabelGang])
	return slices.ContainsFunc(workloads, func(w gang.Workload) bool {
		hasFinished := lifecycle.Observe(w).HasResult() || lifecycle.ReadStatus(w).Phase.Terminal()
		uid := w.Meta().UID
		return !hasFinished && isOwnedBy(service, uid) && !slices.Contains(own, uid)
	}), err
}
