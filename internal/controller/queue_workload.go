package controller

import (
	"context"
	"errors"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/internal/kueue"
)

// createQueueWorkload creates the Workload of a gang whose workloads all exist.
func (r *Reconciler) createQueueWorkload(ctx context.Context, g *observedGang) error {
	var whole []member
	for _, m := range g.Members {
		w, err := r.readWhole(ctx, m)
		if err != nil {
			return err
		}
		m.Workload = w
		whole = append(whole, m)
	}
	priority, err := r.findQueuePriority(ctx, g, whole)
	if err != nil || g.queued.problem != "" {
		return err
	}
	result := g.firstResult()
	w, err := kueue.Build(kueue.Spec{
		Namespace: result.Gang.Namespace, Name: result.Gang.Name, Queue: g.queued.queue,
		PodSets: g.podSets(whole), Priority: priority,
	})
	if err != nil {
		return err
	}
	w.SetLabels(result.ChildLabels())
	if err := r.setOwners(g, w); err != nil {
		return err
	}
	err = r.Client.Create(ctx, w, FieldOwner)
	if isRejected(err) {
		g.queued.problem = rejectionMessage(err, rejectionRetryInterval)
		g.pass.requeueAfter(rejectionRetryInterval)
		return nil
	} else if err != nil {
		return fmt.Errorf("creating the Workload %s: %w", w.GetName(), err)
	}
	return nil
}

// findQueuePriority returns the priority of a gang: that of the WorkloadPriorityClass in the label of a member, or of
// the PriorityClass of its pods. Nil stands for no class.
func (r *Reconciler) findQueuePriority(
	ctx context.Context, g *observedGang, members []member,
) (*kueue.Priority, error) {
	kind := schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")
	name := g.firstResult().Gang.Placement.PriorityClass
	for _, m := range members {
		if label := m.Meta().Labels[kueue.LabelPriorityClass]; label != "" {
			kind, name = kueue.Version.WithKind("WorkloadPriorityClass"), label
		}
	}
	if name == "" {
		return nil, nil
	}
	class, err := r.getObject(ctx, kind, client.ObjectKey{Name: name})
	if err != nil {
		return nil, err
	}
	if class == nil {
		g.queued.problem = fmt.Sprintf("The %s %s does not exist", kind.Kind, name)
		g.pass.requeueAfter(rejectionRetryInterval)
		return nil, nil
	}
	value, _, err := unstructured.NestedInt64(class.Object, "value")
	return &kueue.Priority{Group: kind.Group, Kind: kind.Kind, Name: name, Value: int32(value)}, err
}

// findQueueNodes returns what selects the nodes of each role of an admitted gang.
func (r *Reconciler) findQueueNodes(ctx context.Context, g *observedGang) (map[string]kueue.Nodes, error) {
	w, err := r.getObject(ctx, kueue.Version.WithKind(kueue.Kind), client.ObjectKeyFromObject(g.queued.workload))
	if err != nil {
		return nil, err
	}
	if w == nil || w.GetResourceVersion() != g.queued.workload.GetResourceVersion() {
		return nil, errChildChanging
	}
	return kueue.FindNodes(w, func(name string) (kueue.Nodes, error) {
		flavor, err := r.getObject(ctx, kueue.Version.WithKind("ResourceFlavor"), client.ObjectKey{Name: name})
		if err != nil || flavor == nil {
			return kueue.Nodes{}, errors.Join(err, errChildChanging)
		}
		return kueue.ReadFlavor(flavor)
	})
}
