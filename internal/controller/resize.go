package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/policy"
)

// resizeTimeout is how long a request to inject a resized StatefulSet again is expected to take, until the
// cache contains the result. After this time, a failure of its ranks restarts the gang.
const resizeTimeout = 10 * time.Second

// resizeRequest is the last request to inject a resized StatefulSet again.
type resizeRequest struct {
	size int32
	// timeoutTime is when the gang no longer waits for the result. It is the time of the request if the
	// request was rejected.
	timeoutTime time.Time
	// nextTime is when a rejected request is repeated; zero if the request was not rejected.
	nextTime time.Time
}

// reinjectAfterResize sends a StatefulSet through admission again if its number of replicas differs
// from the gang size with which its ranks are configured. kubectl scale and autoscalers write to the
// scale subresource, which has no labels and therefore reaches no webhook of Rollcall. The patch is
// empty, so the webhook makes the only change, and the sizes are equal afterward
// (docs/adr/0001-engine.md).
func (r *Reconciler) reinjectAfterResize(ctx context.Context, p *pass, w gang.Workload) error {
	set := w.StatefulSet
	if set == nil {
		return nil
	}
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return err
	}
	s, now := p.session, r.Clock.Now()
	isSuspended := w.Ranks() == 0 // its size after it is resumed is unknown
	if isSuspended || w.Ranks() == record.Replicas {
		delete(s.resizes, set.UID)
		return nil
	}
	last := s.resizes[set.UID]
	isRejectedBefore := last.size == w.Ranks() && !last.nextTime.IsZero()
	if delay := last.nextTime.Sub(now); isRejectedBefore && delay > 0 {
		p.requeueAfter(delay)
		return nil
	}
	if last.size != w.Ranks() || isRejectedBefore {
		put(&s.resizes, set.UID, resizeRequest{size: w.Ranks(), timeoutTime: now.Add(resizeTimeout)})
	}
	err = r.Client.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")), FieldOwner)
	if err == nil {
		p.requeueAfter(resizeTimeout) // a rank may fail in the meantime
		return nil
	}
	return r.handleRejectedResize(ctx, p, w, record.Replicas, isRejectedBefore, err)
}

// handleRejectedResize scales a StatefulSet back to its recorded size if the policy denies its size. It records other
// rejections, which last until the user corrects the size, which the scale subresource accepted, or an administrator
// changes the policy or the quota. It returns other errors.
func (r *Reconciler) handleRejectedResize(
	ctx context.Context, p *pass, w gang.Workload, recorded int32, isRejectedBefore bool, err error,
) error {
	s := p.session
	isDenied := injectors.IsDenied(err)
	if isDenied && r.isDeniedByPolicy(ctx, w, recorded) {
		if revertErr := r.revertResize(ctx, s, w, recorded, err); !isRejected(revertErr) {
			return revertErr
		}
	}
	if !isDenied && !isRejected(err) {
		return fmt.Errorf("reinjecting %s after a resize: %w", w.Meta().Name, err)
	}
	now := r.Clock.Now()
	p.requeueAfter(obstacleRetryInterval)
	put(&s.resizes, w.Meta().UID, resizeRequest{
		size: w.Ranks(), timeoutTime: now, nextTime: now.Add(obstacleRetryInterval),
	})
	if !isRejectedBefore {
		r.recordWarning(w, gang.ReasonResizeRejected, eventActionResize,
			"The resize was rejected. The ranks are still configured for %d replicas: %s",
			recorded, strings.Join(injectors.DenialCauses(err), "; "))
	}
	return nil
}

// isDeniedByPolicy reports whether the policy denies the size of a StatefulSet because of the recorded size. The
// webhook compares the same sizes. The cache does not contain all that the policy reads, so the StatefulSet is read
// from the API server.
func (r *Reconciler) isDeniedByPolicy(ctx context.Context, w gang.Workload, recorded int32) bool {
	current, namespace, err := r.currentPolicy(ctx, w.Meta().Namespace)
	if err != nil || current == nil {
		return false
	}
	var whole appsv1.StatefulSet
	err = r.APIReader.Get(ctx, client.ObjectKeyFromObject(w.StatefulSet), &whole)
	if err != nil || whole.UID != w.StatefulSet.UID {
		return false // the rejected resize is repeated
	}
	evaluate := func(replicas int32) ([]policy.Finding, error) {
		sized := whole
		sized.Spec.Replicas = &replicas
		workload := gang.Workload{StatefulSet: &sized}
		result, err := r.Engine.Describe(workload)
		if err != nil {
			return nil, fmt.Errorf("describing %s with %d replicas: %w", whole.Name, replicas, err)
		}
		member := policy.Member{Gang: result.Gang, Workload: workload}
		return current.Judge(policy.Input{
			Members: []policy.Member{member}, Namespace: namespace, Now: r.Clock.Now(),
		})[0].Findings, nil
	}
	before, beforeErr := evaluate(recorded)
	after, afterErr := evaluate(w.Ranks())
	if afterErr != nil {
		return beforeErr == nil && current.CanDeny() // the policy cannot judge the new size
	}
	if recorded == 0 {
		before = nil // the first size is judged as that of a new StatefulSet
	}
	return policy.Worst(policy.Worsened(before, after)) == policy.ModeEnforce
}

// revertResize scales a StatefulSet back to the size of its record. The scale subresource reaches no webhook, so the
// policy cannot deny the request of the user.
func (r *Reconciler) revertResize(
	ctx context.Context, s *session, w gang.Workload, recorded int32, denial error,
) error {
	reverted := w.StatefulSet.DeepCopy()
	reverted.Spec.Replicas = &recorded
	patch := client.MergeFromWithOptions(w.StatefulSet, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, reverted, patch, FieldOwner); err != nil {
		return fmt.Errorf("scaling %s back to its recorded size: %w", reverted.Name, err)
	}
	delete(s.resizes, reverted.UID)
	r.recordWarning(w, gang.ReasonResizeRejected, eventActionResize,
		"The policy of the cluster does not permit the new size, so Rollcall scaled the StatefulSet back to %d replicas: %s",
		recorded, strings.Join(injectors.DenialCauses(denial), "; "))
	return nil
}

// isResizeOverdue reports whether the request to inject a StatefulSet of its size was rejected, or has had no
// result in time.
func (s *session) isResizeOverdue(w gang.Workload, now time.Time) bool {
	last, ok := s.resizes[w.Meta().UID]
	return ok && last.size == w.Ranks() && !now.Before(last.timeoutTime)
}
