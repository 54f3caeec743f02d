package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/lifecycle"
)

// queueWatch watches the Workloads of gangs. The cache of a manager fails if the API server does not serve a kind, so
// the watch is separate. It is nil in a cluster in which Rollcall creates no Workloads.
type queueWatch struct {
	mapper   meta.RESTMapper
	informer cache.SharedIndexInformer
}

// newQueueWatch returns a watch that does not run yet.
func newQueueWatch(config *rest.Config, mapper meta.RESTMapper) (*queueWatch, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for Workloads: %w", err)
	}
	selectGangs := func(o *metav1.ListOptions) {
		o.LabelSelector = injectors.LabelManagedBy + "=" + injectors.ManagedBy + "," + gang.LabelGang
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(c, kueue.Version.WithResource(kueue.Resource),
		metav1.NamespaceAll, 0, cache.Indexers{}, selectGangs).Informer()
	trim := func(o any) (any, error) {
		if w, ok := o.(*unstructured.Unstructured); ok {
			kueue.Trim(w)
		}
		return o, nil
	}
	if err := informer.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("setting up the watch of Workloads: %w", err)
	}
	return &queueWatch{mapper: mapper, informer: informer}, nil
}

// start adds the gangs of changed Workloads to the queue of the controller, as soon as the API server serves Workloads.
func (w *queueWatch) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
	enqueue := func(o any) {
		if deleted, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = deleted.Obj
		}
		if object, ok := o.(*unstructured.Unstructured); ok {
			queue.Add(Request{Namespace: object.GetNamespace(), Gang: object.GetLabels()[gang.LabelGang]})
		}
	}
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) },
	})
	if err != nil {
		return fmt.Errorf("watching Workloads: %w", err)
	}
	go func() {
		for {
			if _, err := w.mapper.RESTMapping(kueueWorkloadKind, kueue.Version.Version); err == nil {
				w.informer.Run(ctx.Done())
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(obstacleRetryInterval):
			}
		}
	}()
	return nil
}

// find returns a copy of a Workload without its pod sets; nil if the watch does not contain it.
func (w *queueWatch) find(key client.ObjectKey) *unstructured.Unstructured {
	if w == nil {
		return nil
	}
	o, exists, err := w.informer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return nil
	}
	return o.(*unstructured.Unstructured).DeepCopy()
}

// kueueWorkloadKind is the kind of the objects in the queues of Kueue. If the API server does not
// serve the kind, Kueue is not installed, and nothing resumes a Job that names a queue.
var kueueWorkloadKind = kueue.Version.WithKind(kueue.Kind).GroupKind()

// isManagedByQueue reports whether a queue resumes a workload. Kueue resumes an admitted Job
// immediately and leaves an evicted Job suspended. Rollcall does not know which case applies, so it
// leaves the decision to Kueue. The lookup of the kind may cost a request, so it is made only for Jobs
// that Rollcall suspended.
//
// An API that cannot be discovered may exist. The error is temporary, because Rollcall would otherwise
// resume the Job without quota.
func (r *Reconciler) isManagedByQueue(w gang.Workload) (bool, error) {
	if w.QueueName() == "" || !lifecycle.ReadStatus(w).SuspendedByRollcall {
		return w.QueueName() != "", nil
	}
	return r.servesKind(kueueWorkloadKind)
}

// servesKind reports whether the API server serves one of the versions of a kind, or any version without an argument.
func (r *Reconciler) servesKind(kind schema.GroupKind, versions ...string) (bool, error) {
	_, err := r.Client.RESTMapper().RESTMapping(kind, versions...)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("discovering %s: %w", kind, err)
	}
	return err == nil, nil
}

// createQueueWorkload creates the Workload of a gang whose workloads all exist.
func (r *Reconciler) createQueueWorkload(ctx context.Context, g *observedGang) error {
	err := useWholes(ctx, g.Members, r.readForQueue, func(whole []member) error {
		return r.createQueueWorkloadOf(ctx, g, whole)
	})
	if errors.Is(err, errTooMuchMemory) {
		g.queued.problem = "The gang cannot wait in a queue: " + err.Error()
		g.pass.requeueAfter(obstacleRetryInterval)
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
		g.queued.problem = rejectionMessage(err, obstacleRetryInterval)
		g.pass.requeueAfter(obstacleRetryInterval)
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
		g.pass.requeueAfter(obstacleRetryInterval)
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
