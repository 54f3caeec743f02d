package integration

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/test/cluster"
	"rollcall.training/test/simulation/traces"
	"rollcall.training/test/wait"
)

var updateTraces = flag.Bool("update-traces", false, "rewrite the recorded traces of the Kubernetes release")

const (
	// recordingPause is how long nothing changes before a step of a recording ends: longer than the delay of the
	// Job controller after the first failure of a rank, and than each time in the scripts.
	recordingPause = 15 * time.Second
	// comparingPause is the same after the recorded state was reached: longer than the batches of the Job controller.
	comparingPause = 2500 * time.Millisecond
	// settleTimeout is how long a step waits for the recorded state.
	settleTimeout = 2 * time.Minute
)

// TestTraces runs the scripts of package traces on real controllers and compares the result with the recorded
// traces, which the stand-ins of the simulation are compared with.
func TestTraces(t *testing.T) {
	release := string(cluster.DefaultRelease())
	recorded, err := traces.Recorded(release)
	if err != nil {
		t.Fatal(err)
	}
	if len(recorded) == 0 && !*updateTraces {
		t.Skipf("Skipped: the simulation follows the latest Kubernetes, and no traces of %q are recorded", release)
	}
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes, ControllerManagerFlags: []string{
		"--node-startup-grace-period=1h", // nodes without kubelets stay
	}})
	var mutex sync.Mutex
	records := maps.Clone(recorded) // -run may select some of the scripts
	t.Run("scripts", func(t *testing.T) {
		for i, script := range traces.Scripts {
			t.Run(script.Name, func(t *testing.T) {
				t.Parallel()
				want := recorded[script.Name]
				if *updateTraces {
					want = nil
				} else if want == nil {
					t.Fatal("the script is not recorded: run the test with -update-traces")
				}
				got, err := traces.Run(newTraceCluster(t, c, fmt.Sprintf("traces-%d", i)), script, want)
				if err != nil {
					t.Fatal(err)
				}
				mutex.Lock()
				defer mutex.Unlock()
				records[script.Name] = got
				if diff := traces.Diff(want, got); diff != "" && !*updateTraces {
					t.Errorf("Kubernetes differs from the recording; -update-traces rewrites it:\n%s", diff)
				}
			})
		}
	})
	if *updateTraces && !t.Failed() {
		if err := traces.Write("../simulation/traces", release, records); err != nil {
			t.Error(err)
		}
	}
}

// traceCluster implements traces.Cluster for a namespace and a node of its own.
type traceCluster struct {
	client.WithWatch
	t      *testing.T
	name   string // of the namespace and of the node
	mutex  sync.Mutex
	events []watch.Event
	last   time.Time
	known  map[types.UID]client.Object
}

func newTraceCluster(t *testing.T, c *cluster.Cluster, name string) *traceCluster {
	config := c.Config()
	config.QPS = -1 // no limit
	out := &traceCluster{t: t, name: name, known: map[types.UID]client.Object{}, last: time.Now()}
	var err error
	if out.WithWatch, err = client.NewWithWatch(config, client.Options{}); err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	meta := metav1.ObjectMeta{Name: name}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: meta}, &corev1.Node{ObjectMeta: meta}} {
		if err := out.WithWatch.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T: %v", o, err)
		}
	}
	wait.For(t, "the ServiceAccount", func(ctx context.Context) error {
		return out.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}} {
		out.collect(list)
	}
	return out
}

// collect collects the events of a kind until the test ends.
func (c *traceCluster) collect(list client.ObjectList) {
	if err := c.List(c.t.Context(), list, client.InNamespace(c.name)); err != nil {
		c.t.Fatalf("listing %T: %v", list, err)
	}
	w, err := c.Watch(c.t.Context(), list, client.InNamespace(c.name),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	if err != nil {
		c.t.Fatalf("watching %T: %v", list, err)
	}
	c.t.Cleanup(w.Stop)
	go func() {
		for event := range w.ResultChan() {
			c.mutex.Lock()
			c.events, c.last = append(c.events, event), time.Now()
			c.mutex.Unlock()
		}
	}()
}

func (c *traceCluster) Now() time.Time { return time.Now() }

func (c *traceCluster) Create(o client.Object) error {
	o = o.DeepCopyObject().(client.Object)
	o.SetNamespace(c.name)
	template := templateOf(o)
	if template.Spec.NodeSelector == nil {
		template.Spec.NodeName = c.name
	}
	return c.WithWatch.Create(c.t.Context(), o)
}

func templateOf(o client.Object) *corev1.PodTemplateSpec {
	if job, ok := o.(*batchv1.Job); ok {
		return &job.Spec.Template
	}
	return &o.(*appsv1.StatefulSet).Spec.Template
}

func (c *traceCluster) Update(o client.Object, subresource string, change func(client.Object)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current := o.DeepCopyObject().(client.Object)
		if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(o), current); err != nil {
			return err
		}
		change(current)
		if subresource == "status" {
			return c.Status().Update(c.t.Context(), current)
		}
		return c.WithWatch.Update(c.t.Context(), current)
	})
}

func (c *traceCluster) Delete(o client.Object, force bool) error {
	options := []client.DeleteOption{
		client.Preconditions{UID: ptr.To(o.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground),
	}
	if force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	return c.WithWatch.Delete(c.t.Context(), o, options...)
}

func (c *traceCluster) Evict(pod *corev1.Pod) error {
	return c.SubResource("eviction").Create(c.t.Context(), pod, &policyv1.Eviction{})
}

// LoseNode reports what the node lifecycle controller reports after the last heartbeat. It returns after the taint
// manager has evicted the pods, and then removes the taint, so that their replacements stay on the node.
func (c *traceCluster) LoseNode() error {
	pods, node := corev1.PodList{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	if err := c.List(c.t.Context(), &pods, client.InNamespace(c.name)); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := c.Update(&pods.Items[i], "status", func(o client.Object) {
			conditions := o.(*corev1.Pod).Status.Conditions
			ready := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
			conditions[ready].Status = corev1.ConditionFalse
			conditions[ready].LastTransitionTime = metav1.NewTime(time.Now().Add(-30 * time.Second))
		}); err != nil {
			return err
		}
	}
	setTaints := func(taints ...corev1.Taint) error {
		return c.Update(node, "", func(o client.Object) { o.(*corev1.Node).Spec.Taints = taints })
	}
	if err := setTaints(corev1.Taint{
		Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: ptr.To(metav1.Now()),
	}); err != nil {
		return err
	}
	wait.For(c.t, "the eviction of the pods", func(ctx context.Context) error {
		for _, pod := range pods.Items {
			if err := c.Get(ctx, client.ObjectKeyFromObject(&pod), &pod); err != nil {
				return err
			}
			if pod.DeletionTimestamp == nil {
				return fmt.Errorf("pod %s is not evicted", pod.Name)
			}
		}
		return nil
	})
	return setTaints()
}

// RemoveNode returns after the garbage collector of pods has noticed that the node is gone, which takes a minute.
// The node then returns without its pods.
func (c *traceCluster) RemoveNode() error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	if err := c.WithWatch.Delete(c.t.Context(), node); err != nil {
		return err
	}
	wait.For(c.t, "the garbage collector of pods", func(ctx context.Context) error {
		pods := corev1.PodList{}
		if err := c.List(ctx, &pods, client.InNamespace(c.name)); err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("%d pods: %w", len(pods.Items), err)
		}
		return nil
	})
	return c.WithWatch.Create(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name}})
}

func (c *traceCluster) Settle(isExpected func() bool) error {
	pause, deadline := recordingPause, time.Now().Add(settleTimeout)
	if isExpected != nil {
		pause = comparingPause
	}
	start := time.Now()
	for {
		if err := c.t.Context().Err(); err != nil {
			return err
		}
		c.mutex.Lock()
		quietSince := c.last
		c.mutex.Unlock()
		if quietSince.Before(start) {
			quietSince = start
		}
		isQuiet := time.Since(quietSince) > pause
		if isQuiet && (isExpected == nil || isExpected() || time.Now().After(deadline)) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Changes orders the events by resource version, which all kinds of an API server share.
func (c *traceCluster) Changes() []traces.Change {
	c.mutex.Lock()
	events := c.events
	c.events = nil
	c.mutex.Unlock()
	version := func(e watch.Event) int {
		n, err := strconv.Atoi(e.Object.(client.Object).GetResourceVersion())
		if err != nil {
			c.t.Errorf("event %s without a resource version: %v", e.Type, e.Object)
		}
		return n
	}
	slices.SortStableFunc(events, func(a, b watch.Event) int { return cmp.Compare(version(a), version(b)) })
	var out []traces.Change
	for _, e := range events {
		o := e.Object.(client.Object)
		change := traces.Change{Before: c.known[o.GetUID()], After: o}
		c.known[o.GetUID()] = o
		if e.Type == watch.Deleted {
			change = traces.Change{Before: o}
		}
		out = append(out, change)
	}
	return out
}
