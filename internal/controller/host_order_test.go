package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// newOrderedJob returns a member of a gang of a launcher and 3 workers, whose launcher orders its hosts.
func newOrderedJob(t *testing.T, role string, ranks int32) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: newObjectMeta("train-"+role, "mpi", role, "launcher=1,worker=3")}
	job.Annotations[gang.AnnotationRankOrder] = "example.com/rack"
	job.Spec = batchv1.JobSpec{Parallelism: &ranks, Completions: &ranks, Template: *podTemplate.DeepCopy()}
	return admitObject(t, job).(*batchv1.Job)
}

// getHostOrder returns the hosts in the order of a gang; empty if it does not exist.
func (w *testCluster) getHostOrder(t *testing.T) string {
	t.Helper()
	order := &corev1.ConfigMap{}
	err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train-rollcall-hosts-3"}, order)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return order.Data["hosts"]
}

// TestHostOrder checks that the order of the hosts exists while all of them have nodes, and not after the gang was
// suspended.
func TestHostOrder(t *testing.T) {
	worker := newOrderedJob(t, "worker", 3)
	objects := []client.Object{newOrderedJob(t, "launcher", 1), worker}
	for i, rack := range []string{"b", "a", "b"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{"example.com/rack": rack},
		}})
		pod := newUnboundPod(worker, fmt.Sprint(i))
		if i < 2 {
			pod.Spec.NodeName = fmt.Sprintf("node-%d", i)
		}
		objects = append(objects, pod)
	}
	w := newTestCluster(t, objects...)
	w.reconcileOnce(t, trainRequest)
	if got := w.getHostOrder(t); got != "" {
		t.Errorf("the order of a host without a node is %q", got)
	}
	last := objects[len(objects)-1].(*corev1.Pod)
	last.Spec.NodeName = "node-2"
	if err := w.Update(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainRequest)
	if got, want := w.getHostOrder(t), "train-worker 1 1\ntrain-worker 0 0\ntrain-worker 2 2"; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
	for _, name := range []string{"train-launcher", "train-worker"} {
		job, _ := w.getJob(t, name)
		job.Spec.Suspend = ptr.To(true)
		if err := w.Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		w.reconcileOnce(t, trainRequest)
	}
	if got := w.getHostOrder(t); got != "" {
		t.Errorf("the order of a suspended gang is %q", got)
	}
}

// TestHostOrderOfNextGang checks that a gang whose workloads replace those of another gang in one pass gets its order.
func TestHostOrderOfNextGang(t *testing.T) {
	newGang := func(run string) []client.Object {
		launcher, worker := newOrderedJob(t, "launcher", 1), newOrderedJob(t, "worker", 3)
		launcher.UID, worker.UID = types.UID(run+"-launcher"), types.UID(run+"-worker")
		objects := []client.Object{launcher, worker}
		for i := range 3 {
			pod := newUnboundPod(worker, fmt.Sprint(i))
			pod.Spec.NodeName = "node"
			objects = append(objects, pod)
		}
		return objects
	}
	first := newGang("first")
	w := newTestCluster(t, first...)
	w.reconcileOnce(t, trainRequest)
	if w.getHostOrder(t) == "" {
		t.Fatal("the first gang has no order")
	}
	order := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-rollcall-hosts-3"}}
	for _, o := range append(first, order) { // Kubernetes deletes what the workloads own
		if err := w.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range newGang("*v1.Job train") { // the UIDs that the cluster gives
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcileOnce(t, trainRequest)
	if w.getHostOrder(t) == "" {
		t.Error("the second gang has no order")
	}
}

// TestAttackHostOrder checks that Rollcall does not change a ConfigMap of somebody else or one that a user keeps by a
// finalizer, and reads no nodes for it.
func TestAttackHostOrder(t *testing.T) {
	order := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-rollcall-hosts-3"}}
	order.Data = map[string]string{"hosts": "mine"}
	kept := order.DeepCopy()
	kept.Labels = map[string]string{gang.LabelGang: "train", injectors.LabelManagedBy: injectors.ManagedBy}
	kept.DeletionTimestamp, kept.Finalizers = ptr.To(metav1.NewTime(testStartTime)), []string{"example.com/keep"}
	for name, test := range map[string]struct {
		order     *corev1.ConfigMap
		wantError bool
	}{
		"a ConfigMap of somebody else":       {order: order, wantError: true},
		"a ConfigMap that a finalizer keeps": {order: kept},
	} {
		t.Run(name, func(t *testing.T) {
			worker := newOrderedJob(t, "worker", 3)
			objects := []client.Object{newOrderedJob(t, "launcher", 1), worker, test.order}
			for i := range 3 {
				pod := newUnboundPod(worker, fmt.Sprint(i))
				pod.Spec.NodeName = "node"
				objects = append(objects, pod)
			}
			w := newTestCluster(t, objects...)
			w.APIReader = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					t.Error("the pass reads all nodes")
					return nil
				},
			})
			if _, err := w.Reconcile(t.Context(), trainRequest); (err != nil) != test.wantError {
				t.Errorf("the pass has the error %v", err)
			}
			if got := w.getHostOrder(t); got != "mine" {
				t.Errorf("the ConfigMap contains %q", got)
			}
		})
	}
}

// TestAttackNodeLabels checks that gangs share what is read of the nodes, and that the nodes are read in pages.
func TestAttackNodeLabels(t *testing.T) {
	var lists []client.ListOptions
	reader := interceptor.NewClient(newTestCluster(t).Client.(client.WithWatch), interceptor.Funcs{List: func(
		_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption,
	) error {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		lists = append(lists, *options)
		node, next := "a", "2"
		if options.Continue == next {
			node, next = "b", ""
		}
		nodes := list.(*metav1.PartialObjectMetadataList)
		nodes.Continue = next
		nodes.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
			Name: node, Labels: map[string]string{"rack": node, "block": "1", "other": "x"},
		}}}
		return nil
	}})
	n := &nodeLabels{}
	for _, step := range []struct {
		name  string
		after time.Duration
		nodes []string
		keys  []string
		reads int
	}{
		{name: "the first gang", nodes: []string{"b"}, keys: []string{"rack"}, reads: 1},
		{name: "another gang with the same label", after: time.Second, nodes: []string{"a"}, keys: []string{"rack"}},
		{name: "another label", after: time.Second, nodes: []string{"a"}, keys: []string{"block"}, reads: 1},
		{name: "both labels", after: time.Second, nodes: []string{"a"}, keys: []string{"block", "rack"}},
		{name: "a new node", after: time.Second, nodes: []string{"c"}, keys: []string{"rack"}, reads: 1},
		{name: "old labels", after: time.Minute, nodes: []string{"a"}, keys: []string{"rack"}, reads: 1},
	} {
		lists = nil
		labels, err := n.find(t.Context(), reader, testStartTime.Add(step.after), step.nodes, step.keys)
		if err != nil || labels["b"]["rack"] != "b" || labels["b"]["other"] != "" {
			t.Errorf("%s: the labels are %v, error %v", step.name, labels, err)
		}
		if len(lists) != 2*step.reads {
			t.Errorf("%s: %d pages are read, want %d", step.name, len(lists), 2*step.reads)
		}
		for _, options := range lists {
			if options.Limit != nodesPerPage {
				t.Errorf("%s: a page has %d nodes", step.name, options.Limit)
			}
		}
	}
}
