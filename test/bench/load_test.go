package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
)

const (
	// runTimeout bounds each wait of a run. It is far longer than any successful wait takes.
	runTimeout = 5 * time.Minute
	// quietPeriod is the time without writes after which a run is over. The Job controller is the
	// slowest writer: it batches changes for one second.
	quietPeriod = 2 * time.Second
	// trainingContainer is the name of the training container.
	trainingContainer = "trainer"
)

// variant is one way to create the same gangs.
type variant string

const (
	// variantPlain creates plain Jobs without the label.
	variantPlain variant = "plain"
	// variantInjectedOnly creates Jobs that have the injected fields but no label. Rollcall ignores
	// them.
	variantInjectedOnly variant = "injected"
	// variantManual creates Jobs that have the injected fields, and a headless Service that publishes all
	// ranks: a gang without Rollcall.
	variantManual variant = "manual"
	// variantRank0 creates the same, and its Service publishes only rank 0.
	variantRank0 variant = "rank0"
	// variantLabeled creates plain Jobs with the label.
	variantLabeled variant = "labeled"
	// variantJobSet creates a JobSet with one such Job. JobSet creates its own headless Service and
	// injects no variables.
	variantJobSet variant = "jobset"
	// variantTrainer creates a TrainJob. Kubeflow Trainer injects the variables of torchrun, and creates a
	// JobSet.
	variantTrainer variant = "trainer"
	// variantMPI creates an MPIJob. mpi-operator creates its workers as pods, with a Service, a Secret with
	// ssh keys and a ConfigMap with the hostfile. A Job creates a launcher, which does not count as a rank.
	variantMPI variant = "mpi"
)

// load is a number of gangs of one size.
type load struct {
	Gangs int `json:"gangs"`
	Ranks int `json:"ranks"`
}

func (l load) String() string {
	if l.Gangs == 1 {
		return fmt.Sprintf("1 gang of %d ranks", l.Ranks)
	}
	return fmt.Sprintf("%d gangs of %d ranks", l.Gangs, l.Ranks)
}

// runResult holds the measurements of one run of a load.
type runResult struct {
	// ReadySeconds is the time from the first creation until all pods are ready.
	ReadySeconds float64 `json:"readySeconds"`
	// CreateSeconds is the total time of all creations. They are sequential.
	CreateSeconds float64 `json:"createSeconds"`
	// RunningSeconds is the time until all gangs are in phase Running. It is set for labeled gangs
	// only.
	RunningSeconds float64 `json:"runningSeconds,omitempty"`
	// PodBytes is the mean size of a pod in etcd, and PodJSONBytes its size as JSON.
	PodBytes     float64 `json:"podBytes"`
	PodJSONBytes float64 `json:"podJSONBytes"`
	// EventBytes is the mean size of an event of a pod in a watch, until all pods are ready.
	// EventsPerPod is the number of these events.
	EventBytes   float64 `json:"eventBytes"`
	EventsPerPod float64 `json:"eventsPerPod"`
	// CPUSeconds is the CPU time of each program until writes stop.
	CPUSeconds map[string]float64 `json:"cpuSeconds"`

	writes map[writeKind]int
}

// benchCluster is the cluster of all runs.
type benchCluster struct {
	client kubernetes.Interface
	// dynamic creates gangs of other operators.
	dynamic dynamic.Interface
	audit   *auditLog
	engine  *injectors.Engine
}

// measureLoad creates the load in its own namespace, measures it, checks it and deletes it.
func (g *benchCluster) measureLoad(t *testing.T, l load, v variant, namespace string) runResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	must := failOnError(t, l, v)
	pods, err := g.watchPodsOfNewNamespace(ctx, namespace)
	must(err)
	defer pods.Stop()

	var r runResult
	before, begin := readCPUSeconds(t), time.Now()
	must(g.createJobs(ctx, l, v, namespace))
	r.CreateSeconds = time.Since(begin).Seconds()
	events, err := waitForReadyPods(ctx, pods, l.Gangs*l.Ranks)
	must(err)
	r.ReadySeconds = time.Since(begin).Seconds()
	if v == variantLabeled {
		must(g.waitForPhase(ctx, namespace, lifecycle.Running))
		r.RunningSeconds = time.Since(begin).Seconds()
	}
	g.audit.waitUntilQuiet(t, quietPeriod)
	r.CPUSeconds = subtractCPUSeconds(readCPUSeconds(t), before)
	r.writes = g.audit.countWrites(t, namespace)
	r.EventBytes = float64(events.bytes) / float64(events.count)
	r.EventsPerPod = float64(events.count) / float64(l.Gangs*l.Ranks)
	list, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	must(err)
	ranks := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return isLauncher(&p) })
	must(r.measurePods(ranks))
	must(checkPodEnv(l, v, ranks))
	must(g.deleteGangs(ctx, namespace))
	return r
}

// measurePods records the mean size of the pods.
func (r *runResult) measurePods(pods []corev1.Pod) error {
	for i := range pods {
		text, err := json.Marshal(&pods[i])
		if err != nil {
			return fmt.Errorf("encoding the pod %s: %w", pods[i].Name, err)
		}
		r.PodBytes += float64(pods[i].Size()) / float64(len(pods))
		r.PodJSONBytes += float64(len(text)) / float64(len(pods))
	}
	return nil
}

// createJobs creates the Jobs sequentially, as kubectl does.
func (g *benchCluster) createJobs(ctx context.Context, l load, v variant, namespace string) error {
	for i := range l.Gangs {
		j := newJob(fmt.Sprintf("train-%03d", i), namespace, int32(l.Ranks))
		if kind, ok := gangKinds[v]; ok {
			if err := g.createGang(ctx, kind, j); err != nil {
				return err
			}
			continue
		}
		var service *corev1.Service
		if v != variantPlain {
			j.Labels = map[string]string{gang.LabelFramework: "pytorch"}
		}
		if v == variantManual {
			j.Annotations = map[string]string{gang.AnnotationPublishedRanks: string(gang.PublishAll)}
		}
		if v == variantInjectedOnly || v == variantManual || v == variantRank0 {
			result, err := g.engine.Inject(gang.Workload{Job: j})
			if err != nil {
				return fmt.Errorf("injecting %s: %w", j.Name, err)
			}
			// The labels must not be empty: the API server copies the labels of the template to a
			// Job without labels, and they include the framework label.
			j.Labels = map[string]string{"app": j.Name}
			j.Annotations = nil // only Rollcall may write them
			if v != variantInjectedOnly {
				service = result.BuildService()
				service.Labels = nil // only Rollcall may create a Service with its labels
			}
		}
		made, err := g.client.BatchV1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating %s: %w", j.Name, err)
		}
		if service == nil {
			continue
		}
		service.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(made, batchv1.SchemeGroupVersion.WithKind("Job")),
		}
		if _, err := g.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the Service of %s: %w", j.Name, err)
		}
	}
	return nil
}

// newJob returns a plain Job whose pods have indexes.
func newJob(name, namespace string, ranks int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Parallelism:    &ranks, Completions: &ranks,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: trainingContainer, Image: "example.com/train:1", Command: []string{"torchrun", "train.py"},
				}},
			}},
		},
	}
}

// watchPodsOfNewNamespace creates a namespace and watches its pods.
func (g *benchCluster) watchPodsOfNewNamespace(ctx context.Context, namespace string) (watch.Interface, error) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the namespace %s: %w", namespace, err)
	}
	return g.watchPods(ctx, namespace)
}

// watchPods watches the pods of a namespace from now on. It restarts the watch when the API server
// closes it, which happens under load.
func (g *benchCluster) watchPods(ctx context.Context, namespace string) (watch.Interface, error) {
	pods := g.client.CoreV1().Pods(namespace)
	none, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	begin := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) }
	w, err := watchtools.NewRetryWatcherWithContext(
		ctx, none.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: begin},
	)
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	return w, nil
}

// watchedEvents are the number of events of a watch and the size of their objects.
type watchedEvents struct {
	count, bytes int
	// allExistTime is when the last of the wanted pods was created.
	allExistTime time.Time
}

// waitForReadyPods reads a watch until the wanted number of ranks is ready.
func waitForReadyPods(ctx context.Context, pods watch.Interface, want int) (events watchedEvents, err error) {
	existing, ready := map[string]bool{}, map[string]bool{}
	for len(ready) < want {
		select {
		case <-ctx.Done():
			return events, fmt.Errorf("waiting for %d pods, of which %d are ready: %w", want, len(ready), ctx.Err())
		case e, open := <-pods.ResultChan():
			if !open || e.Type == watch.Error {
				return events, fmt.Errorf("the watch of pods ended: %v", e.Object)
			}
			p, ok := e.Object.(*corev1.Pod)
			if !ok || isLauncher(p) {
				continue
			}
			events.count++
			events.bytes += p.Size()
			if existing[p.Name] = true; len(existing) == want && events.allExistTime.IsZero() {
				events.allExistTime = time.Now()
			}
			if e.Type != watch.Deleted && lifecycle.IsPodReady(p) {
				ready[p.Name] = true
			}
		}
	}
	return events, nil
}

// pollUntil polls at an interval that does not load the API server.
func pollUntil(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; last error: %w", what, err, last)
	}
	return nil
}

// waitForPhase waits until every gang is in a phase.
func (g *benchCluster) waitForPhase(ctx context.Context, namespace string, phase lifecycle.Phase) error {
	others := metav1.ListOptions{LabelSelector: gang.LabelPhase + "!=" + string(phase)}
	return pollUntil(ctx, fmt.Sprintf("phase %s of all gangs", phase), func(ctx context.Context) error {
		list, err := g.client.BatchV1().Jobs(namespace).List(ctx, others)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d gangs are not %s, for example %s: %q",
				len(list.Items), phase, list.Items[0].Name, list.Items[0].Labels[gang.LabelPhase])
		}
		return err
	})
}

// deleteGangs deletes the gangs and waits until all their objects are deleted.
func (g *benchCluster) deleteGangs(ctx context.Context, namespace string) error {
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := g.deleteOtherGangs(ctx, namespace, background); err != nil {
		return err
	}
	if err := g.client.BatchV1().Jobs(namespace).DeleteCollection(ctx, background, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the Jobs: %w", err)
	}
	one := metav1.ListOptions{Limit: 1}
	return pollUntil(ctx, "the deletion of all objects", func(ctx context.Context) error {
		for what, list := range map[string]func() (runtime.Object, error){
			"pods":     func() (runtime.Object, error) { return g.client.CoreV1().Pods(namespace).List(ctx, one) },
			"jobs":     func() (runtime.Object, error) { return g.client.BatchV1().Jobs(namespace).List(ctx, one) },
			"services": func() (runtime.Object, error) { return g.client.CoreV1().Services(namespace).List(ctx, one) },
			"endpointslices": func() (runtime.Object, error) {
				return g.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, one)
			},
		} {
			found, err := list()
			if err != nil {
				return err
			}
			if meta.LenList(found) > 0 {
				return errors.New(what + " still exist")
			}
		}
		return nil
	})
}
