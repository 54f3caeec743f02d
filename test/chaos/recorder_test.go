package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
)

// pollInterval is the pause between two looks at a history, and before a watch is repeated.
const pollInterval = 50 * time.Millisecond

// recorder writes the histories of all lives, by namespace. Its own watches, unlike those of an
// informer, distinguish a gap: a restart of the API server hides changes.
type recorder struct {
	client kubernetes.Interface

	mu        sync.Mutex
	histories map[string]*history
	fault     nodeFault
}

// startRecorder records until ctx ends. wait returns when all watches have ended.
func startRecorder(ctx context.Context, client kubernetes.Interface) (r *recorder, wait func()) {
	r = &recorder{client: client, histories: map[string]*history{}}
	var group sync.WaitGroup
	group.Go(func() { repeat(ctx, r.watchPods) })
	group.Go(func() { repeat(ctx, r.watchJobs) })
	group.Go(func() { repeat(ctx, r.watchStatefulSets) })
	return r, group.Wait
}

// repeat calls f until ctx ends. An error of f only means that a watch ended.
func repeat(ctx context.Context, f func(context.Context) error) {
	for ctx.Err() == nil {
		_ = f(ctx)
		time.Sleep(pollInterval)
	}
}

// addLife starts the history of a life.
func (r *recorder) addLife(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.histories[namespace] = newHistory(&r.fault)
}

// startFault records that a node has a fault. Only one node can have a fault.
func (r *recorder) startFault(node string, isLost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = nodeFault{number: r.fault.number + 1, node: node, isLost: isLost}
	for _, h := range r.histories {
		h.applyFault()
	}
}

// endFault records that the fault has ended.
func (r *recorder) endFault() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = nodeFault{number: r.fault.number}
}

// read calls f with the history of a life.
func (r *recorder) read(namespace string, f func(*history)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.histories[namespace]; h != nil {
		f(h)
	}
}

// waitFor waits until check returns nil for the history of a life.
func (r *recorder) waitFor(
	ctx context.Context, namespace, what string, timeout time.Duration, check func(*history) error,
) error {
	var err error
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(pollInterval) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.read(namespace, func(h *history) { err = check(h) })
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("waiting for %s: %w", what, err)
}

func (r *recorder) watchPods(ctx context.Context) error {
	labeled := metav1.ListOptions{LabelSelector: gang.LabelGang}
	list, err := r.client.CoreV1().Pods("").List(ctx, labeled)
	if err != nil {
		return err
	}
	byNamespace := map[string][]corev1.Pod{}
	for _, pod := range list.Items {
		byNamespace[pod.Namespace] = append(byNamespace[pod.Namespace], pod)
	}
	r.mu.Lock()
	for namespace, h := range r.histories {
		h.replacePods(byNamespace[namespace])
	}
	r.mu.Unlock()
	labeled.ResourceVersion = list.ResourceVersion
	w, err := r.client.CoreV1().Pods("").Watch(ctx, labeled)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("watching pods: %v", event.Object)
		}
		r.read(pod.Namespace, func(h *history) {
			if event.Type == watch.Deleted {
				h.forgetPod(pod.UID)
			} else {
				h.observePod(*pod)
			}
		})
	}
	return nil
}

func (r *recorder) watchJobs(ctx context.Context) error {
	labeled := metav1.ListOptions{LabelSelector: gang.LabelFramework}
	list, err := r.client.BatchV1().Jobs("").List(ctx, labeled)
	if err != nil {
		return err
	}
	for i := range list.Items {
		r.observe(gang.Workload{Job: &list.Items[i]}, false)
	}
	labeled.ResourceVersion = list.ResourceVersion
	w, err := r.client.BatchV1().Jobs("").Watch(ctx, labeled)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		job, ok := event.Object.(*batchv1.Job)
		if !ok {
			return fmt.Errorf("watching Jobs: %v", event.Object)
		}
		if event.Type != watch.Deleted {
			r.observe(gang.Workload{Job: job}, true)
		}
	}
	return nil
}

func (r *recorder) watchStatefulSets(ctx context.Context) error {
	labeled := metav1.ListOptions{LabelSelector: gang.LabelFramework}
	list, err := r.client.AppsV1().StatefulSets("").List(ctx, labeled)
	if err != nil {
		return err
	}
	for i := range list.Items {
		r.observe(gang.Workload{StatefulSet: &list.Items[i]}, false)
	}
	labeled.ResourceVersion = list.ResourceVersion
	w, err := r.client.AppsV1().StatefulSets("").Watch(ctx, labeled)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		set, ok := event.Object.(*appsv1.StatefulSet)
		if !ok {
			return fmt.Errorf("watching StatefulSets: %v", event.Object)
		}
		if event.Type != watch.Deleted {
			r.observe(gang.Workload{StatefulSet: set}, true)
		}
	}
	return nil
}

func (r *recorder) observe(w gang.Workload, complete bool) {
	r.read(w.Meta().Namespace, func(h *history) { h.observeWorkload(w, complete) })
}
