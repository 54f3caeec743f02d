package main

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"

	"rollcall.training/test/operators/recording"
	"rollcall.training/test/operators/recording/standin"
)

// runJobSet runs the JobSet controller on a JobSet until it creates no more Jobs, and records the
// Jobs. Between two passes of the controller, each new Job starts. It succeeds instead if another
// part of the JobSet depends on that.
func (o *operators) runJobSet(ctx context.Context, jobSet *unstructured.Unstructured, r *recording.Recording) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(jobsetapi.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&jobsetapi.JobSet{}, &batchv1.Job{})
	if err := controllers.SetupJobSetIndexes(ctx, indexer{builder}); err != nil {
		return err
	}
	c := builder.Build()
	manager := standin.NewManager(c)
	if err := webhooks.Setup(manager); err != nil {
		return fmt.Errorf("setting up webhooks: %w", err)
	}
	warnings, err := createObject(ctx, c, manager, o.jobSet, jobSet)
	if err != nil {
		return err
	}
	r.Warnings = append(r.Warnings, warnings...)
	name := types.NamespacedName{Namespace: jobSet.GetNamespace(), Name: jobSet.GetName()}
	if err := reconcileAll(ctx, c, name); err != nil {
		return err
	}
	var jobs batchv1.JobList
	var services corev1.ServiceList
	if err := c.List(ctx, &jobs); err != nil {
		return err
	}
	if err := c.List(ctx, &services); err != nil {
		return err
	}
	for i := range jobs.Items {
		r.AddJob(&jobs.Items[i])
	}
	for i := range services.Items {
		r.AddService(&services.Items[i])
	}
	return nil
}

func reconcileAll(ctx context.Context, c client.Client, name types.NamespacedName) error {
	reconciler := controllers.NewJobSetReconciler(c, c.Scheme(), &events.FakeRecorder{})
	started := sets.New[string]()
	for {
		if _, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: name}); err != nil {
			return err
		}
		var jobSet jobsetapi.JobSet
		if err := c.Get(ctx, name, &jobSet); err != nil {
			return err
		}
		before := started.Len()
		if err := startJobs(ctx, c, &jobSet, started); err != nil {
			return err
		}
		if started.Len() == before {
			return nil
		}
	}
}

// startJobs acts as API server and Job controller for new Jobs: it sets default sizes, and reports
// all pods as ready or succeeded.
func startJobs(ctx context.Context, c client.Client, jobSet *jobsetapi.JobSet, started sets.Set[string]) error {
	ends := sets.New[string]()
	for _, r := range jobSet.Spec.ReplicatedJobs {
		for _, d := range r.DependsOn {
			if d.Status == jobsetapi.DependencyComplete {
				ends.Insert(d.Name)
			}
		}
	}
	var jobs batchv1.JobList
	if err := c.List(ctx, &jobs); err != nil {
		return err
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if started.Has(j.Name) {
			continue
		}
		started.Insert(j.Name)
		if j.Spec.Parallelism == nil && j.Spec.Completions == nil {
			j.Spec.Completions = ptr.To[int32](1)
		}
		if j.Spec.Parallelism == nil {
			j.Spec.Parallelism = ptr.To[int32](1)
		}
		if err := c.Update(ctx, j); err != nil {
			return err
		}
		n := recording.PodCount(j)
		if ends.Has(j.Labels[jobsetapi.ReplicatedJobNameKey]) {
			j.Status.Succeeded = n
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		} else {
			j.Status.Active, j.Status.Ready = n, ptr.To(n)
		}
		if err := c.Status().Update(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// indexer adds indexes to the builder of a client.
type indexer struct{ *fake.ClientBuilder }

// IndexField adds an index.
func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}
