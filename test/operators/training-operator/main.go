// Training-operator records the objects that github.com/kubeflow/training-operator v1 creates for
// PyTorchJobs, TFJobs, MPIJobs of kubeflow.org/v1, XGBoostJobs, PaddleJobs and JAXJobs.
//
// It runs the operator's webhooks and one reconcile pass on objects in memory, with the defaults of
// its flags and without a gang scheduler. It reconciles an MPIJob again when the workers run,
// because the host discovery script depends on them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	kubeflowv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollcall.training/test/operators/recording"
	"rollcall.training/test/operators/recording/standin"
)

const module = "github.com/kubeflow/training-operator"

func main() {
	ctx := context.Background()
	logrus.SetOutput(io.Discard)
	log.SetLogger(logr.Discard())
	// The defaults of the operator's flags.
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	config.Config.MPIKubectlDeliveryImage = config.MPIKubectlDeliveryImageDefault

	definitions, err := readDefinitions(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	record := func(ctx context.Context, objects []*unstructured.Unstructured) (*recording.Recording, error) {
		if len(objects) != 1 {
			return nil, fmt.Errorf("want one object, got %d", len(objects))
		}
		return runOperator(ctx, definitions, objects[0])
	}
	recording.Main(ctx, record, "pytorchjob", "tfjob", "mpijob-v1", "xgboostjob", "paddlejob", "jaxjob")
}

func readDefinitions(ctx context.Context) (recording.Definitions, error) {
	dir, err := recording.ModuleDir(ctx, module)
	if err != nil {
		return nil, err
	}
	return recording.ReadDefinitions(filepath.Join(dir, "manifests/base/crds/kubeflow.org_*.yaml"))
}

func runOperator(
	ctx context.Context, definitions recording.Definitions, o *unstructured.Unstructured,
) (*recording.Recording, error) {
	if err := definitions.Default(o); err != nil {
		return nil, err
	}
	job, err := convertToTyped(o)
	if err != nil {
		return nil, err
	}
	c := newCluster(job)
	manager := standin.NewManager(c.client)
	if err := webhooks.SupportedSchemeWebhook[o.GetKind()](manager); err != nil {
		return nil, err
	}
	warnings, err := standin.Admit(ctx, manager.GetWebhookServer(), o)
	if err != nil {
		return nil, err
	}
	reconciler := newReconciler(o.GetKind(), manager, c)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
	if _, err := reconciler.Reconcile(ctx, request); err != nil {
		return nil, err
	}
	if o.GetKind() == kubeflowv1.MPIJobKind {
		if err := c.runPods(ctx); err != nil {
			return nil, err
		}
		if _, err := reconciler.Reconcile(ctx, request); err != nil {
			return nil, err
		}
	}
	r, err := c.recordObjects(ctx)
	if err != nil {
		return nil, err
	}
	r.Warnings = warnings
	return r, nil
}

// convertToTyped converts the object to the operator's type for its kind.
func convertToTyped(o *unstructured.Unstructured) (client.Object, error) {
	scheme := runtime.NewScheme()
	if err := kubeflowv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	empty, err := scheme.New(o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	job, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", o.GetKind())
	}
	return job, recording.Strict(o, job)
}

// recordObjects returns a recording of the objects in the cluster.
func (c *cluster) recordObjects(ctx context.Context) (*recording.Recording, error) {
	var pods corev1.PodList
	var services corev1.ServiceList
	var configMaps corev1.ConfigMapList
	for _, list := range []client.ObjectList{&pods, &services, &configMaps} {
		if err := c.client.List(ctx, list); err != nil {
			return nil, err
		}
	}
	r := recording.New(recording.Operator(module), pods.Items, services.Items)
	for i := range configMaps.Items {
		r.AddConfigMap(&configMaps.Items[i])
	}
	return r, nil
}
