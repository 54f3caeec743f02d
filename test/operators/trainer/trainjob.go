package main

import (
	"context"
	"fmt"
	"strings"

	configapi "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainerapi "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	trainertesting "github.com/kubeflow/trainer/v2/pkg/util/testing"
	"github.com/kubeflow/trainer/v2/pkg/webhooks"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rollcall.training/test/operators/recording"
	"rollcall.training/test/operators/recording/standin"
)

// snapshotSuffix is the suffix of the ConfigMap in which trainer stores a copy of the runtime for
// its own use.
const snapshotSuffix = "-runtime-snapshot"

// runTrainJob runs trainer on a TrainJob, records the objects that it creates in addition to the
// JobSet, and returns the JobSet.
func (o *operators) runTrainJob(
	ctx context.Context, job *unstructured.Unstructured, runtimes []*unstructured.Unstructured, r *recording.Recording,
) (*unstructured.Unstructured, error) {
	builder := trainertesting.NewClientBuilder().WithStatusSubresource(&trainerapi.TrainJob{})
	// The runtimes register their indexes once, in their constructor. A client in memory needs the
	// indexes before it is built. So the runtimes are created twice.
	if _, err := core.New(
		ctx, trainertesting.NewClientBuilder().Build(), trainertesting.AsIndex(builder), &configapi.Configuration{},
	); err != nil {
		return nil, fmt.Errorf("collecting indexes: %w", err)
	}
	c := builder.Build()
	plugins, err := core.New(ctx, c, ignoreIndexes{}, &configapi.Configuration{})
	if err != nil {
		return nil, fmt.Errorf("creating the runtimes: %w", err)
	}
	manager := standin.NewManager(c)
	if kind, err := webhooks.Setup(manager, plugins); err != nil {
		return nil, fmt.Errorf("setting up the webhook of %s: %w", kind, err)
	}
	for _, object := range append(runtimes[:len(runtimes):len(runtimes)], job) {
		warnings, err := createObject(ctx, c, manager, o.trainer, object.DeepCopy())
		if err != nil {
			return nil, err
		}
		r.Warnings = append(r.Warnings, warnings...)
	}
	name := types.NamespacedName{Namespace: job.GetNamespace(), Name: job.GetName()}
	reconciler := controller.NewTrainJobReconciler(c, &events.FakeRecorder{}, plugins)
	if _, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: name}); err != nil {
		return nil, err
	}
	if err := recordConfigMapsAndSecrets(ctx, c, r); err != nil {
		return nil, err
	}
	jobSet := &unstructured.Unstructured{}
	jobSet.SetGroupVersionKind(jobsetapi.GroupVersion.WithKind("JobSet"))
	if err := c.Get(ctx, name, jobSet); err != nil {
		return nil, fmt.Errorf("getting the JobSet: %w", err)
	}
	jobSet.SetUID(job.GetUID())
	jobSet.SetResourceVersion("")
	jobSet.SetManagedFields(nil)
	return jobSet, nil
}

// recordConfigMapsAndSecrets records ConfigMaps and Secrets.
func recordConfigMapsAndSecrets(ctx context.Context, c client.Client, r *recording.Recording) error {
	var configMaps corev1.ConfigMapList
	var secrets corev1.SecretList
	if err := c.List(ctx, &configMaps); err != nil {
		return err
	}
	if err := c.List(ctx, &secrets); err != nil {
		return err
	}
	for i := range configMaps.Items {
		if !strings.HasSuffix(configMaps.Items[i].Name, snapshotSuffix) {
			r.AddConfigMap(&configMaps.Items[i])
		}
	}
	for i := range secrets.Items {
		r.AddSecret(&secrets.Items[i])
	}
	return nil
}

// createObject creates an object as an API server does: it applies the defaults of its definition,
// calls the webhooks, and rejects fields that its type does not have.
func createObject(
	ctx context.Context, c client.Client, m *standin.Manager, d recording.Definitions, o *unstructured.Unstructured,
) ([]string, error) {
	if err := d.Default(o); err != nil {
		return nil, err
	}
	warnings, err := standin.Admit(ctx, m.GetWebhookServer(), o)
	if err != nil {
		return nil, err
	}
	empty, err := c.Scheme().New(o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	object, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", o.GetKind())
	}
	if err := recording.Strict(o, object); err != nil {
		return nil, err
	}
	if err := c.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return warnings, nil
}

// ignoreIndexes is a FieldIndexer for a client that already has its indexes.
type ignoreIndexes struct{}

// IndexField does nothing.
func (ignoreIndexes) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}
