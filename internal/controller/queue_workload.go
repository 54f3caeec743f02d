package controller

import (
	"context"
	"errors"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
)

// createQueueWorkload creates the Workload of a gang whose workloads all exist.
func (r *Reconciler) createQueueWorkload(ctx context.Context, g *observedGang) error {
	err := useWholes(ctx, g.Members, r.readForQueue, func(whole []member) error {
		return r.createQueueWorkloadOf(ctx, g, whole)
	})
	if errors.Is(err, errTooMuchMemory) {
		g.queued.problem = "The gang cannot wait in a queue: " + err.Error()
		g.pass.requeueAfter(rejectionRetryInterval)
		return nil
	}
	return err
}

// createQueueWorkloadOf creates the Workload of a gang with the given whole members.
func (r *Reconciler) createQueueWorkloadOf(ctx context.Context, g *observedGang, whole []member) error {
	for _, m := range whole {
		m.lastStatus().QueueNodes.RemoveFrom(&m.Template().Spec)
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

// placeInQueue returns copies of whole members with the nodes of their flavors, instead of those of an earlier
// admission.
func (r *Reconciler) placeInQueue(ctx context.Context, g *observedGang, members []member) ([]gang.Workload, error) {
	nodes, err := kueue.FindNodes(g.queued.workload, g.podSets(members), func(name string) (gang.QueueNodes, error) {
		flavor, err := r.getObject(ctx, kueue.Version.WithKind("ResourceFlavor"), client.ObjectKey{Name: name})
		if err != nil || flavor == nil {
			return gang.QueueNodes{}, errors.Join(err, errChildChanging)
		}
		return kueue.ReadFlavor(flavor)
	})
	if err != nil {
		return nil, err
	}
	var out []gang.Workload
	for _, m := range members {
		w, status := m.DeepCopy(), m.lastStatus()
		status.QueueNodes.RemoveFrom(&w.Template().Spec)
		if status.QueueNodes, err = nodes[m.Result.Gang.Role].AddTo(&w.Template().Spec); err != nil {
			return nil, fmt.Errorf("%w is %w", err, kueue.ErrUnsupported)
		}
		if err := status.WriteTo(w); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}
