package controller

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
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
	if n := w.Ranks(); n == 0 || n == record.Size {
		return nil
	}
	err = r.Client.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")), FieldOwner)
	if injectors.IsDenied(err) {
		// It was scaled past admission to what admission refuses. Only its user can
		// mend that, and the update that does brings us back.
		r.warning(w, gang.ReasonInvalid, actionResize, "The ranks still know a gang of %d: %s", record.Size, strings.Join(injectors.Causes(err), "; "))
		return nil
	}
	if err != nil {
		return fmt.Errorf("having %s injected for its new size: %w", set.Name, err)
	}
	return nil
}
