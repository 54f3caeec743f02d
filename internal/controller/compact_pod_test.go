package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// podChanges are the changes that make the states of a pod. Each combination of them is a state.
var podChanges = []func(*corev1.Pod){
	func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
	func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "evicted",
		})
	},
	func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(testStartTime)), ptr.To[int64](30)
	},
	func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 3, Reason: "Error", Message: "last words", FinishedAt: metav1.NewTime(testStartTime),
		}}
	},
	func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].RestartCount = 1
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 0}
	},
	func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "prepare", Started: ptr.To(true),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}
	},
	func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
	},
	func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory"
	},
	func(p *corev1.Pod) { p.OwnerReferences = nil },
	func(p *corev1.Pod) {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/checked"}}
	},
	func(p *corev1.Pod) {
		p.Labels = map[string]string{gang.LabelGang: "train", appsv1.PodIndexLabel: "7"}
		p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	},
}

// newPodInState returns the pod of an index after the changes whose bits are set in the index.
func newPodInState(index int) *corev1.Pod {
	p := newLargePod(index)
	p.CreationTimestamp = metav1.NewTime(testStartTime.Add(time.Duration(index) * time.Second))
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(testStartTime.Add(time.Hour))
	for i, change := range podChanges {
		if index&(1<<i) != 0 {
			change(p)
		}
	}
	return p
}

// TestCompactPod checks that a pod of the cache equals the trimmed pod in each state, and that the informer
// indexes it by the same keys.
func TestCompactPod(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	want := map[string]*corev1.Pod{}
	for i := range 1 << len(podChanges) {
		pod := newPodInState(i)
		source.Add(pod)
		want[pod.Name] = trimPod(pod)
	}
	for name, lister := range map[string]toolscache.ListerWatcher{
		"list": listOnlySource{source}, "streaming list": streamingSource{source},
	} {
		t.Run(name, func(t *testing.T) { checkPodsOfCache(t, startPodCache(t, lister), want) })
	}
}

// checkPodsOfCache compares the pods of a cache with trimmed pods by their names.
func checkPodsOfCache(t *testing.T, c cache.Cache, want map[string]*corev1.Pod) {
	t.Helper()
	var pods, owned corev1.PodList
	if err := c.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != len(want) {
		t.Fatalf("the cache has %d pods, want %d", len(pods.Items), len(want))
	}
	ownedPods := 0
	for i := range pods.Items {
		got := pods.Items[i]
		got.TypeMeta = metav1.TypeMeta{} // a copy of the cache has it
		if !equality.Semantic.DeepEqual(got, *want[got.Name]) {
			t.Errorf("%s (-trimmed +cached):\n%s", got.Name, cmp.Diff(*want[got.Name], got))
		}
		ownedPods += len(got.OwnerReferences)
	}
	uid := string(newLargePod(0).OwnerReferences[0].UID)
	err := c.List(t.Context(), &owned, client.InNamespace("team"), client.MatchingFields{indexPodOwner: uid})
	if err != nil || len(owned.Items) != ownedPods {
		t.Errorf("the Job has %d pods in the index, want %d, error %v", len(owned.Items), ownedPods, err)
	}
	if err := c.List(t.Context(), &pods, client.UnsafeDisableDeepCopy); err == nil {
		t.Error("the list without a copy of the pods has no error")
	}
}

// TestCompactPodIsNotChanged checks that changes of a pod of the cache do not change the cache.
func TestCompactPodIsNotChanged(t *testing.T) {
	for i := range 1 << len(podChanges) {
		compact := newCompactPod(trimPod(newPodInState(i)))
		first, want := compact.DeepCopyObject().(*corev1.Pod), compact.DeepCopyObject()
		for _, change := range podChanges {
			if len(first.Status.Conditions) > 0 && len(first.Status.ContainerStatuses) > 0 {
				change(first)
			}
		}
		first.Labels[gang.LabelGang] = "other"
		for j := range first.Status.Conditions {
			first.Status.Conditions[j].Reason = "Other"
		}
		for j := range first.Spec.SchedulingGates {
			first.Spec.SchedulingGates[j].Name = "other"
		}
		if diff := cmp.Diff(want, compact.DeepCopyObject()); diff != "" {
			t.Fatalf("state %d (-before +after):\n%s", i, diff)
		}
	}
}

// TestCompactPodEvents checks that events of compact pods cause passes of their gang, also if the watch
// missed the deletion of a pod.
func TestCompactPodEvents(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	c := startPodCache(t, listOnlySource{source})
	informer, err := c.GetInformer(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	r := newTestCluster(t).Reconciler
	requests := make(chan string, 10)
	record := func(event string, o any) {
		if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			event, o = event+" unknown", tombstone.Obj
		}
		requests <- fmt.Sprint(event, r.requestsForPod(t.Context(), o.(client.Object)))
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { record("add", o) },
		UpdateFunc: func(_, o any) { record("update", o) },
		DeleteFunc: func(o any) { record("delete", o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(event string) {
		t.Helper()
		want := event + fmt.Sprint([]Request{{Namespace: "team", Kind: gang.Job, Name: "train"}})
		if got := <-requests; got != want {
			t.Errorf("the event is %s, want %s", got, want)
		}
	}
	pod := newPodInState(0)
	source.Add(pod.DeepCopy())
	expect("add")
	source.Modify(newPodInState(0))
	expect("update")
	source.DeleteDropWatch(pod.DeepCopy())
	source.ResetWatch()
	expect("delete unknown")
}

// listOnlySource is a source without streaming lists.
type listOnlySource struct {
	*cachetesting.FakeControllerSource
}

func (listOnlySource) IsWatchListSemanticsUnSupported() bool { return true }

// streamingSource is a source of streaming lists (KEP-3157). The informer transforms these pods twice. The
// source sends no events after the list.
type streamingSource struct {
	*cachetesting.FakeControllerSource
}

func (s streamingSource) List(metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.New("the source has only streaming lists")
}

func (s streamingSource) Watch(metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithChanSize(len(s.Items)+1, false)
	for _, pod := range s.Items {
		w.Add(pod.DeepCopyObject())
	}
	w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: fmt.Sprint(len(s.Items)), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	return w, nil
}

// startPodCache returns a cache with the pods of a source and the index of their owners.
func startPodCache(t testing.TB, source toolscache.ListerWatcher) cache.Cache {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := cache.New(&rest.Config{}, cache.Options{
		Scheme:   scheme.Scheme,
		Mapper:   mapper,
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: CompactPod}},
		NewInformer: func(
			_ toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(source, o, resync, indexers)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.IndexField(t.Context(), &corev1.Pod{}, indexPodOwner, podOwnerKeys); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil { // the context of the test is done
			t.Error(err)
		}
	})
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not have the pods")
	}
	return c
}

// BenchmarkListPods lists 10,000 ready pods of one gang from the cache, as a pass does.
func BenchmarkListPods(b *testing.B) {
	const pods = 10_000
	source := cachetesting.NewFakeControllerSource()
	for i := range pods {
		source.Add(decodePod(b, i, pods))
	}
	r := &Reconciler{Client: cacheClient{Reader: startPodCache(b, listOnlySource{source})}}
	owner := decodePod(b, 0, pods).OwnerReferences[0].UID
	b.ReportAllocs()
	for b.Loop() {
		if listed, err := r.listPods(b.Context(), "team", owner); err != nil || len(listed) != pods {
			b.Fatalf("%d pods, error %v", len(listed), err)
		}
	}
}

// cacheClient is a client that only reads from a cache.
type cacheClient struct {
	client.Reader
	client.Client
}

func (c cacheClient) Get(
	ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption,
) error {
	return c.Reader.Get(ctx, key, o, options...)
}

func (c cacheClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.Reader.List(ctx, list, options...)
}
