package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	mpifake "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/fake"
	mpiinformers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"

	"rollcall.training/test/operators/recording"
)

// pollInterval is the pause between two checks of the controller's progress.
const pollInterval = 10 * time.Millisecond

// runController runs the controller on a job and returns a recording of the objects that it
// created.
func runController(ctx context.Context, job *v2beta1.MPIJob) (*recording.Recording, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	kube, mpi := fake.NewClientset(), mpifake.NewClientset(job)
	kubeInformers := informers.NewSharedInformerFactory(kube, 0)
	mpiInformers := mpiinformers.NewSharedInformerFactory(mpi, 0)
	core := kubeInformers.Core().V1()
	c, err := controller.NewMPIJobController(ctx, kube, mpi, nil, nil,
		core.ConfigMaps(), core.Secrets(), core.Services(), kubeInformers.Batch().V1().Jobs(), core.Pods(),
		kubeInformers.Scheduling().V1().PriorityClasses(), mpiInformers.Kubeflow().V2beta1().MPIJobs(),
		// The defaults of the controller's flags.
		&options.ServerOption{Threadiness: 2, ControllerRateLimit: 10, ControllerBurst: 100})
	if err != nil {
		return nil, err
	}
	watched := trackWatches(kube)
	kubeInformers.Start(ctx.Done())
	mpiInformers.Start(ctx.Done())
	if err := watched(ctx); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(2, ctx.Done()) }()
	r, err := recordOnceStarted(ctx, kube, job)
	stop()
	return r, errors.Join(err, <-done)
}

// watchedResources are the Kubernetes resources that the controller watches.
var watchedResources = []string{"configmaps", "secrets", "services", "jobs", "pods", "priorityclasses"}

// trackWatches returns a function that waits until each of watchedResources is watched. A clientset
// in memory has no history: the controller would never observe objects that are created between the
// list and the watch of an informer.
func trackWatches(kube *fake.Clientset) func(context.Context) error {
	started := make(chan string, 16)
	kube.PrependWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		w, err := kube.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err == nil {
			started <- action.GetResource().Resource
		}
		return true, w, err
	})
	return func(ctx context.Context) error {
		missing := sets.New(watchedResources...)
		for missing.Len() > 0 {
			select {
			case r := <-started:
				missing.Delete(r)
			case <-ctx.Done():
				return fmt.Errorf("waiting for watches of %v: %w", sets.List(missing), ctx.Err())
			}
		}
		return nil
	}
}

func recordOnceStarted(
	ctx context.Context, kube kubernetes.Interface, job *v2beta1.MPIJob,
) (*recording.Recording, error) {
	launcher := job.Name + "-launcher"
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := kube.BatchV1().Jobs(job.Namespace).Get(ctx, launcher, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the launcher (%s): %w", formatEvents(kube, job.Namespace), err)
	}
	if err := runPods(ctx, kube, job.Namespace); err != nil {
		return nil, err
	}
	return recordObjects(ctx, kube, job.Namespace)
}

// formatEvents returns the notes of the Events of a namespace. They explain why a job does not
// start.
func formatEvents(kube kubernetes.Interface, namespace string) string {
	// The context of the caller may be canceled. The clientset is in memory and does not block.
	list, err := kube.CoreV1().Events(namespace).List(context.TODO(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	messages := make([]string, 0, len(list.Items))
	for _, e := range list.Items {
		messages = append(messages, e.Message)
	}
	return strings.Join(messages, "; ")
}

// runPods reports all workers as running, as kubelets do. It waits until the controller has listed
// all of them in the host discovery script.
func runPods(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pods.Items[i].Status.Phase = corev1.PodRunning
		// The controller ignores an update with the same resource version, and a clientset in
		// memory does not set it.
		pods.Items[i].ResourceVersion = "2"
		if _, err := kube.CoreV1().Pods(namespace).UpdateStatus(ctx, &pods.Items[i], metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		maps, err := kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(maps.Items) != 1 {
			return false, err
		}
		script := maps.Items[0].Data["discover_hosts.sh"]
		for _, p := range pods.Items {
			if !strings.Contains(script, p.Name+".") {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the workers to be discovered: %w", err)
	}
	return nil
}

// recordObjects records the objects that the controller created.
func recordObjects(ctx context.Context, kube kubernetes.Interface, namespace string) (*recording.Recording, error) {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	services, err := kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	jobs, err := kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	configMaps, err := kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	secrets, err := kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	r := recording.New(recording.Operator(module), pods.Items, services.Items)
	for i := range jobs.Items {
		r.AddJob(&jobs.Items[i])
	}
	for i := range configMaps.Items {
		r.AddConfigMap(&configMaps.Items[i])
	}
	for i := range secrets.Items {
		r.AddSecret(&secrets.Items[i])
	}
	return r, nil
}
