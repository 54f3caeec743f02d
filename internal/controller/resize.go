package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/plan"
)

// resizeRejection is a size of a StatefulSet that admission rejected.
type resizeRejection struct {
	size int32
	// nextTime is when the request is repeated.
	nextTime time.Time
}

// reinjectAfterResize sends a StatefulSet through admission again if its number of replicas differs
// from the gang size with which its ranks are configured. kubectl scale and autoscalers write to the
// scale subresource, which has no labels and therefore reaches no webhook of Rollcall. The patch is
// empty, so the webhook makes the only change, and the sizes are equal afterward
// (docs/adr/0009-scale-subresource.md).
func (r *Reconciler) reinjectAfterResize(ctx context.Context, p *pass, w gang.Workload) error {
	set := w.StatefulSet
	if set == nil {
		return nil
	}
	record, err := plan.ReadRecord(w)
	if err != nil || record == nil {
		return err
	}
	s, now := r.sessions.forRequest(p.request), r.Clock.Now()
	isSuspended := w.Ranks() == 0 // its size after it is resumed is unknown
	if isSuspended || w.Ranks() == record.Replicas {
		delete(s.rejectedResizes, set.UID)
		return nil
	}
	isRejectedBefore := s.isResizeRejected(w)
	if delay := s.rejectedResizes[set.UID].nextTime.Sub(now); isRejectedBefore && delay > 0 {
		p.requeueAfter(delay)
		return nil
	}
	err = r.Client.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")), FieldOwner)
	if injectors.IsDenied(err) {
		// The scale subresource accepted a size that admission rejects, until the user corrects the size or
		// an administrator changes the policy.
		s.recordRejectedResize(w, now.Add(rejectionRetryInterval))
		p.requeueAfter(rejectionRetryInterval)
		if !isRejectedBefore {
			r.recordWarning(w, gang.ReasonResizeRejected, eventActionResize,
				"The resize was rejected. The ranks are still configured for %d replicas: %s",
				record.Replicas, strings.Join(injectors.DenialCauses(err), "; "))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reinjecting %s after a resize: %w", set.Name, err)
	}
	delete(s.rejectedResizes, set.UID)
	return nil
}

// isResizeRejected reports whether admission rejected the size of a StatefulSet.
func (s *session) isResizeRejected(w gang.Workload) bool {
	rejection, ok := s.rejectedResizes[w.Meta().UID]
	return ok && rejection.size == w.Ranks()
}

// recordRejectedResize records that admission rejected the size of a StatefulSet, until a time.
func (s *session) recordRejectedResize(w gang.Workload, nextTime time.Time) {
	if s.rejectedResizes == nil {
		s.rejectedResizes = map[types.UID]resizeRejection{}
	}
	s.rejectedResizes[w.Meta().UID] = resizeRejection{size: w.Ranks(), nextTime: nextTime}
}
