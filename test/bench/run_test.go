package bench

import (
	"context"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

const (
	// limit bounds each wait of a run: far more than anything takes that works.
	limit = 5 * time.Minute
	// settled is how long nothing is written when a run is over. The Job controller, the slowest, gathers changes for a
	// second before it writes.
	settled = 2 * time.Second
	// container is the name of the one that trains.
	container = "trainer"
)

// variant is a way to make the same gangs.
type variant string

const (
	// plain Jobs are Kubernetes' own affair.
	plain variant = "plain"
	// injected Jobs have what Rollcall injects and no label: Rollcall does not see them.
	injected variant = "injected"
	// byHand Jobs are injected, and have the headless Service: gangs as one makes them without Rollcall.
	byHand variant = "by-hand"
	// labelled Jobs are plain ones with the label.
	labelled variant = "labelled"
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

// run is what was measured of one load.
type run struct {
	// Ready is the time from the first creation until all pods are ready.
	Ready float64 `json:"readySeconds"`
	// Create is the time that all creations together took, which were made one after another.
	Create float64 `json:"createSeconds"`
	// Phase is the time until all gangs are said to run; of labelled ones.
	Phase float64 `json:"phaseSeconds,omitempty"`
	// CPU is what each program computed until nothing was written any more.
	CPU map[string]float64 `json:"cpuSeconds"`

	writes map[write]int
}

// ground is where runs are made.
type ground struct {
	client kubernetes.Interface
	audit  *auditLog
	engine *injectors.Engine
}

// run makes the load in a namespace of its own, measures it, checks it and takes it away.
func (g *ground) run(t *testing.T, l load, v variant, namespace string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s, %s: %v", l, v, err)
		}
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	must(err)
	pods, err := g.watch(ctx, namespace)
	must(err)
	defer pods.Stop()

	var r run
	before, begin := cpu(t), time.Now()
	must(g.create(ctx, l, v, namespace))
	r.Create = time.Since(begin).Seconds()
	must(allReady(ctx, pods, l.Gangs*l.Ranks))
	r.Ready = time.Since(begin).Seconds()
	if v == labelled {
		must(g.running(ctx, namespace))
		r.Phase = time.Since(begin).Seconds()
	}
	g.audit.quiet(t, settled)
	r.CPU = map[string]float64{}
	for name, seconds := range cpu(t) {
		r.CPU[name] = seconds - before[name]
	}
	r.writes = g.audit.writes(t, namespace)
	must(g.check(ctx, l, v, namespace))
	must(g.clear(ctx, namespace))
	return r
}

// create makes the Jobs one after another, as kubectl would.
func (g *ground) create(ctx context.Context, l load, v variant, namespace string) error {
	for i := range l.Gangs {
		j := job(fmt.Sprintf("train-%03d", i), namespace, int32(l.Ranks))
		var service *corev1.Service
		if v != plain {
			j.Labels = map[string]string{gang.LabelFramework: "pytorch"}
		}
		if v == injected || v == byHand {
			result, err := g.engine.Inject(gang.Workload{Job: j})
			if err != nil {
				return fmt.Errorf("injecting %s: %w", j.Name, err)
			}
			// Not none: a Job without labels gets those of its template, which have the framework's.
			j.Labels = map[string]string{"app": j.Name}
			if v == byHand {
				service = result.Service()
			}
		}
		made, err := g.client.BatchV1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating %s: %w", j.Name, err)
		}
		if service == nil {
			continue
		}
		service.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(made, batchv1.SchemeGroupVersion.WithKind("Job"))}
		if _, err := g.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the Service of %s: %w", j.Name, err)
		}
	}
	return nil
}

// job is a plain Job whose pods are numbered, as those of a gang are.
func job(name, namespace string, ranks int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Parallelism:    &ranks, Completions: &ranks,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: container, Image: "example.com/train:1", Command: []string{"torchrun", "train.py"},
				}},
			}},
		},
	}
}

// watch watches pods from now on. An API server with much to do ends a watch now and then, which is begun again.
func (g *ground) watch(ctx context.Context, namespace string) (watch.Interface, error) {
	pods := g.client.CoreV1().Pods(namespace)
	none, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	begin := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) }
	w, err := watchtools.NewRetryWatcherWithContext(ctx, none.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: begin})
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	return w, nil
}

// allReady reads a watch until so many pods are ready.
func allReady(ctx context.Context, pods watch.Interface, want int) error {
	ready := map[string]bool{}
	for len(ready) < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d pods, of which %d are ready: %w", want, len(ready), ctx.Err())
		case e, open := <-pods.ResultChan():
			if !open || e.Type == watch.Error {
				return fmt.Errorf("the watch of pods ended: %v", e.Object)
			}
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted && isReady(p) {
				ready[p.Name] = true
			}
		}
	}
	return nil
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// until polls as seldom as leaves the API server alone.
func until(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; last: %w", what, err, last)
	}
	return nil
}

// running waits until every gang is in phase Running.
func (g *ground) running(ctx context.Context, namespace string) error {
	others := metav1.ListOptions{LabelSelector: gang.LabelPhase + "!=" + string(gang.Running)}
	return until(ctx, "phase Running of all gangs", func(ctx context.Context) error {
		list, err := g.client.BatchV1().Jobs(namespace).List(ctx, others)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d gangs are not, such as %s: %q", len(list.Items), list.Items[0].Name, list.Items[0].Labels[gang.LabelPhase])
		}
		return err
	})
}

// clear deletes the gangs and waits until nothing of them is left.
func (g *ground) clear(ctx context.Context, namespace string) error {
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := g.client.BatchV1().Jobs(namespace).DeleteCollection(ctx, background, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the Jobs: %w", err)
	}
	one := metav1.ListOptions{Limit: 1}
	return until(ctx, "the end of all objects", func(ctx context.Context) error {
		for what, list := range map[string]func() (runtime.Object, error){
			"pods":           func() (runtime.Object, error) { return g.client.CoreV1().Pods(namespace).List(ctx, one) },
			"jobs":           func() (runtime.Object, error) { return g.client.BatchV1().Jobs(namespace).List(ctx, one) },
			"services":       func() (runtime.Object, error) { return g.client.CoreV1().Services(namespace).List(ctx, one) },
			"endpointslices": func() (runtime.Object, error) { return g.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, one) },
		} {
			found, err := list()
			if err != nil {
				return err
			}
			if meta.LenList(found) > 0 {
				return errors.New(what + " are left")
			}
		}
		return nil
	})
}
