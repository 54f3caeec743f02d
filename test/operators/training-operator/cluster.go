package main

import (
	"context"

	kubeflowv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/control"
	"github.com/kubeflow/training-operator/pkg/controller.v1/jax"
	"github.com/kubeflow/training-operator/pkg/controller.v1/mpi"
	paddle "github.com/kubeflow/training-operator/pkg/controller.v1/paddlepaddle"
	"github.com/kubeflow/training-operator/pkg/controller.v1/pytorch"
	"github.com/kubeflow/training-operator/pkg/controller.v1/tensorflow"
	"github.com/kubeflow/training-operator/pkg/controller.v1/xgboost"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollcall.training/test/operators/recording/standin"
)

// cluster is an API server in memory. The operator reads with one client and writes with another.
// Both access the same objects.
type cluster struct {
	client    client.Client
	clientset *kubernetesfake.Clientset
}

func newCluster(job client.Object) *cluster {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kubeflowv1.AddToScheme(scheme))
	tracker := testing.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	clientset := &kubernetesfake.Clientset{}
	clientset.AddReactor("*", "*", testing.ObjectReaction(tracker))
	return &cluster{
		client: clientfake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).
			WithStatusSubresource(job).WithObjects(job).Build(),
		clientset: clientset,
	}
}

// runPods reports every pod as running, as a kubelet does.
func (c *cluster) runPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		p.Status.Phase = corev1.PodRunning
		if err := c.client.Status().Update(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// newReconciler returns the operator's reconciler for a kind. It writes to c.
func newReconciler(kind string, m *standin.Manager, c *cluster) reconcile.Reconciler {
	gang := common.GenNonGangSchedulerSetupFunc()
	var r reconcile.Reconciler
	var jobs *common.JobController
	switch kind {
	case kubeflowv1.PyTorchJobKind:
		x := pytorch.NewReconciler(m, gang)
		r, jobs = x, &x.JobController
	case kubeflowv1.TFJobKind:
		x := tensorflow.NewReconciler(m, gang)
		r, jobs = x, &x.JobController
	case kubeflowv1.MPIJobKind:
		x := mpi.NewReconciler(m, gang)
		r, jobs = x, &x.JobController
	case kubeflowv1.XGBoostJobKind:
		x := xgboost.NewReconciler(m, gang)
		r, jobs = x, &x.JobController
	case kubeflowv1.PaddleJobKind:
		x := paddle.NewReconciler(m, gang)
		r, jobs = x, &x.JobController
	case kubeflowv1.JAXJobKind:
		x := jax.NewReconciler(m, gang)
		r, jobs = x, &x.JobController
	}
	recorder := &record.FakeRecorder{}
	jobs.KubeClientSet = c.clientset
	jobs.PodControl = control.RealPodControl{KubeClient: c.clientset, Recorder: recorder}
	jobs.ServiceControl = control.RealServiceControl{KubeClient: c.clientset, Recorder: recorder}
	return r
}
