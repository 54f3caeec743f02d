package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// observeOrphans makes the restart after the deletion of a member wait for the pods of the deleted workload. They
// have the names and the addresses of ranks of the gang until they have terminated. Pods of another workload that
// exists are not orphans.
func (r *Reconciler) observeOrphans(
	ctx context.Context, g *observedGang, state lifecycle.State, snapshot *lifecycle.Snapshot,
) error {
	if !g.multiWorkload || state.Phase != lifecycle.Restarting {
		return nil
	}
	var existing []types.UID
	for _, m := range slices.Concat(g.members, g.strangers, g.earlierRun) {
		existing = append(existing, m.Meta().UID)
	}
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(g.pass.request.Namespace),
		client.MatchingLabels{gang.LabelGang: g.pass.request.Gang})
	if err != nil {
		return fmt.Errorf("listing the pods of deleted members: %w", err)
	}
	orphans := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || slices.Contains(existing, owner.UID)
	})
	observed := observeTermination(lifecycle.Observation{}, orphans, snapshot.Now, g.ignoresOverduePods)
	snapshot.AllPodsTerminated = snapshot.AllPodsTerminated && observed.allTerminated
	if !observed.nextTimeout.IsZero() {
		g.pass.requeueAfter(observed.nextTimeout.Sub(snapshot.Now))
	}
	return nil
}
