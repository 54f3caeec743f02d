package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// resize has a StatefulSet injected anew when its number of ranks is no longer the
// one that they were told. kubectl scale and autoscalers write to the scale
// subresource, which carries no labels and so reaches no webhook of ours. A patch
// that changes nothing takes the set through admission; all that is written is
// what the webhook makes of it, so this ends by itself.
func (r *Reconciler) resize(ctx context.Context, w gang.Workload) error {
	set := w.StatefulSet
	if set == nil {
		return nil
	}
	record, err := plan.ReadRecord(w)
	if err != nil || record == nil {
		return err
	}
	// No replicas: the gang is held back and will return, perhaps as large as it was.
	if n := ptr.Deref(set.Spec.Replicas, 1); n == 0 || n == record.Size {
		return nil
	}
	if err := r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte("{}")), FieldOwner); err != nil {
		return fmt.Errorf("having %s injected for its new size: %w", set.Name, err)
	}
	return nil
}
