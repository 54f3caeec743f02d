package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

const (
	// completionGracePeriod is how long a gang with a member that determines completion does not fail because
	// of a rank. The other ranks lose their peer when such a member succeeds, and its exit may be reported last.
	completionGracePeriod = 3 * time.Second
	// staleCacheDelay is the delay before a pass is repeated whose cache was stale.
	staleCacheDelay = time.Second
)

// confirmDecision reports whether the next state of a gang may be written. Pods and workloads arrive by
// different watches. A suspension, whose pods were deleted before the cache contained it, must neither
// fail nor restart a gang. A Job counts a pod before the pod disappears, so the counts of a stale cache hide why
// the peers of the pod fail. Before such a decision, all members are therefore read from the API server.
// If the decision is not confirmed, the pass is repeated.
func (r *Reconciler) confirmDecision(
	ctx context.Context, g *observedGang, last, next lifecycle.State, snapshot lifecycle.Snapshot,
) bool {
	s, now := r.sessions.forRequest(g.pass.request), snapshot.Now
	if g.isUncertain(s, last, next, snapshot) {
		return false
	}
	isFailing := next.Phase == lifecycle.Failed && last.Phase != next.Phase &&
		g.memberStates.Phase(last.Phase) != lifecycle.Failed
	if !isFailing {
		s.failureDecisionTime = time.Time{}
		isRestarting := next.Phase == lifecycle.Restarting && last.Phase != next.Phase
		return !isRestarting || r.isCacheCurrent(ctx, g)
	}
	if s.failureDecisionTime.IsZero() {
		s.failureDecisionTime = now
	}
	remaining := s.failureDecisionTime.Add(completionGracePeriod).Sub(now)
	if remaining > 0 && slices.ContainsFunc(g.memberStates, mayCompleteGang) {
		g.pass.requeueAfter(remaining)
		return false
	}
	return r.isCacheCurrent(ctx, g)
}

// isUncertain reports whether a decision because of a failure that nobody observed has to be repeated after
// [staleCacheDelay]; see [lifecycle.State.IsUnobservedFailureUncertain].
func (g *observedGang) isUncertain(s *session, last, next lifecycle.State, snapshot lifecycle.Snapshot) bool {
	isNew := next.Phase != last.Phase && (next.Phase == lifecycle.Restarting || next.Phase == lifecycle.Failed)
	isUnobserved := next.FirstFailure != nil && next.FirstFailure.Reason == failure.ReasonUnobserved
	if !isNew || !isUnobserved || !last.IsUnobservedFailureUncertain(snapshot) {
		s.unobservedTime = time.Time{}
		return false
	}
	if s.unobservedTime.IsZero() {
		s.unobservedTime = snapshot.Now
	}
	remaining := s.unobservedTime.Add(staleCacheDelay).Sub(snapshot.Now)
	if remaining > 0 {
		g.pass.requeueAfter(remaining)
	}
	return remaining > 0
}

// mayCompleteGang reports whether a member that determines completion has not finished.
func mayCompleteGang(m lifecycle.MemberState) bool {
	return m.DeterminesCompletion && m.Exists && !m.Observed.Complete && !m.Observed.Failed
}

// isCacheCurrent reports whether the API server has the same versions of all members as the cache.
// Otherwise it schedules another pass.
func (r *Reconciler) isCacheCurrent(ctx context.Context, g *observedGang) bool {
	for _, m := range g.members {
		current, _ := gang.NewWorkload(m.Kind())
		object := current.Object().(client.Object)
		err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(m.clientObject()), object)
		if err != nil && !apierrors.IsNotFound(err) {
			g.pass.handleError(fmt.Errorf("reading %s: %w", m.Meta().Name, err))
			return false
		}
		if err != nil || object.GetResourceVersion() != m.Meta().ResourceVersion {
			g.pass.requeueAfter(staleCacheDelay)
			return false
		}
	}
	return true
}
