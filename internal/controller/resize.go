package controller

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/plan"
)

// reinjectAfterResize sends a StatefulSet through admission again if its number of replicas differs
// from the gang size with which its ranks are configured. kubectl scale and autoscalers write to the
// scale subresource, which has no labels and therefore reaches no webhook of Rollcall. The patch is
// empty, so the webhook makes the only change, and the sizes are equal afterward
// (docs/adr/0009-scale-subresource.md).
func (r *Reconciler) reinjectAfterResize(ctx context.Context, w gang.Workload) error {
	set := w.StatefulSet
	if set == nil {
		return nil
	}
	record, err := plan.ReadRecord(w)
	if err != nil || record == nil {
		return err
	}
	isSuspended := w.Ranks() == 0 // its size after it is resumed is unknown
	if isSuspended || w.Ranks() == record.Replicas {
		return nil
	}
	err = r.Client.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")), FieldOwner)
	if injectors.IsDenied(err) {
		// The scale subresource accepted a size that admission rejects. Only the user can correct the
		// size, and the update causes another pass.
		r.recordWarning(w, gang.ReasonResizeRejected, eventActionResize,
			"The resize was rejected. The ranks are still configured for %d replicas: %s",
			record.Replicas, strings.Join(injectors.DenialCauses(err), "; "))
		return nil
	}
	if err != nil {
		return fmt.Errorf("reinjecting %s after a resize: %w", set.Name, err)
	}
	return nil
}
