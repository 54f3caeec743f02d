package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
)

// clean takes away what is left of the pods of a gang that has ended, where its user
// wants that: with their logs, by one call for each member. What still ran is gone by
// then, or on its way; see [wished].
func (r *Reconciler) clean(ctx context.Context, p *party, s gang.State) error {
	if !s.Phase.Terminal() || p.lifecycle().Clean != gang.CleanAll || p.state().Phase != s.Phase {
		return nil // the end is told first
	}
	for _, m := range p.members {
		if m.Job == nil || m.result == nil || m.pods == 0 {
			continue // a StatefulSet is scaled to 0, which takes all of its pods away
		}
		err := r.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(m.Meta().Namespace), client.MatchingLabelsSelector{Selector: ownPods(m)})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("taking away the pods of %s: %w", m.Meta().Name, err)
		}
		log.FromContext(ctx).Info("Took away the pods of a gang that has ended", "member", m.Meta().Name, "pods", m.pods)
	}
	return nil
}

// ownPods selects the pods of one Job and of no other that bears the gang's name.
func ownPods(m member) labels.Selector {
	set := labels.Set{gang.LabelGang: m.result.Gang.Name, gang.LabelRole: m.result.Gang.Role}
	out := set.AsSelector()
	of, err := labels.NewRequirement(batchv1.ControllerUidLabel, selection.Equals, []string{string(m.Job.UID)})
	if err != nil {
		return labels.Nothing() // a UID that is no label value
	}
	return out.Add(*of)
}
