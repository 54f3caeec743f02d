package simulation

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// statefulSetController is a stand-in for the StatefulSet controller (kubernetes pkg/controller/statefulset):
// one pod per ordinal that is replaced only after it is deleted, and rolling updates from the highest
// ordinal. Each sync makes its requests one after the other.
type statefulSetController struct {
	w    *world
	api  *api
	sets *watch
	pods *watch
	busy map[types.UID]bool
	// again contains the sets that changed during a sync.
	again map[types.UID]bool
	// setVersion and podVersion are the last versions that the controller wrote for a set. It does not sync the set
	// before its caches contain them (KEP-5647).
	setVersion, podVersion map[types.UID]int64
	// failures is the number of syncs of a set in a row that failed. Unless an event comes first, its next sync waits
	// for twice as long each time.
	failures map[types.UID]int
}

func newStatefulSetController(a *api) *statefulSetController {
	c := &statefulSetController{
		w: a.w, api: a, busy: map[types.UID]bool{}, again: map[types.UID]bool{},
		setVersion: map[types.UID]int64{}, podVersion: map[types.UID]int64{},
		failures: map[types.UID]int{},
	}
	c.startWatches()
	return c
}

// startWatches fills the caches with what exists now.
func (c *statefulSetController) startWatches() {
	c.sets = c.api.watch(statefulSetKind, "statefulset-controller/statefulsets", nil, func(_, after client.Object) {
		if after != nil {
			c.enqueue(after.GetUID())
		}
	})
	c.pods = c.api.watch(podKind, "statefulset-controller/pods", nil, func(before, after client.Object) {
		o := after
		if o == nil {
			o = before
		}
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == string(statefulSetKind) {
			c.enqueue(owner.UID)
		}
	})
}

// restart forgets everything, also the requests of syncs that run, and fills new caches.
func (c *statefulSetController) restart() {
	c.sets.closed, c.pods.closed = true, true
	c.startWatches()
	c.busy, c.again, c.failures = map[types.UID]bool{}, map[types.UID]bool{}, map[types.UID]int{}
	for _, o := range c.sets.list() {
		c.enqueue(o.GetUID())
	}
}

func (c *statefulSetController) enqueue(uid types.UID) {
	if c.again[uid] {
		return
	}
	c.again[uid] = true
	c.w.after("statefulset-controller/sync", func() { c.sync(uid) })
}

func (c *statefulSetController) find(uid types.UID) *appsv1.StatefulSet {
	for _, o := range c.sets.objects {
		if o.GetUID() == uid {
			return o.(*appsv1.StatefulSet)
		}
	}
	return nil
}

func (c *statefulSetController) sync(uid types.UID) {
	c.again[uid] = false
	if c.busy[uid] || c.sets.version < c.setVersion[uid] || c.pods.version < c.podVersion[uid] {
		c.enqueue(uid)
		return
	}
	set := c.find(uid)
	if set == nil || set.DeletionTimestamp != nil {
		return
	}
	set = clone(set)
	steps := c.decide(set, c.pods.podsOf(uid))
	c.busy[uid] = true
	c.runSteps(uid, steps)
}

func (c *statefulSetController) runSteps(uid types.UID, steps []func() error) {
	if len(steps) == 0 {
		c.busy[uid], c.failures[uid] = false, 0
		return
	}
	sets := c.sets
	c.w.after("statefulset-controller/requests", func() {
		if sets.closed {
			return // the controller has restarted
		}
		err := c.w.fault("statefulset-controller")
		if err == nil {
			err = steps[0]()
		}
		if err != nil && !apierrors.IsNotFound(err) {
			c.busy[uid] = false
			delay := min(5*time.Millisecond<<min(c.failures[uid], 20), 1000*time.Second)
			c.failures[uid]++
			c.w.at(c.w.now.Add(delay), func() { c.enqueue(uid) })
			return
		}
		c.runSteps(uid, steps[1:])
	})
}

// decide returns the requests of a sync, and sets the new status of the set.
func (c *statefulSetController) decide(set *appsv1.StatefulSet, pods []*corev1.Pod) []func() error {
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	revision := revisionOf(set)
	byOrdinal := map[int32]*corev1.Pod{}
	for _, pod := range pods {
		byOrdinal[gang.PodIndex(pod)] = pod
	}
	var steps []func() error
	deletePod := func(pod *corev1.Pod) {
		steps = append(steps, func() error {
			err := c.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID})
			c.podVersion[set.UID] = c.api.versions[podKind]
			return err
		})
	}
	parallel := set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	for ordinal := range replicas {
		pod := byOrdinal[ordinal]
		switch {
		case pod == nil:
			steps = append(steps, func() error { return c.createPod(set, ordinal, revision) })
		case pod.DeletionTimestamp == nil && isTerminal(pod):
			deletePod(pod)
		case pod.DeletionTimestamp == nil && isReady(pod):
			continue
		}
		if !parallel {
			break
		}
	}
	for _, pod := range pods {
		if gang.PodIndex(pod) >= replicas && pod.DeletionTimestamp == nil {
			deletePod(pod)
		}
	}
	for _, pod := range podsToUpdate(set, byOrdinal, revision) {
		deletePod(pod)
	}
	before := set.Status.DeepCopy()
	c.updateStatus(set, pods, revision)
	if equality.Semantic.DeepEqual(before, &set.Status) {
		return steps
	}
	return append(steps, func() error {
		_, err := c.api.update(set, "status")
		if err == nil {
			c.setVersion[set.UID] = c.api.versions[statefulSetKind]
		}
		return err
	})
}

// podsToUpdate returns the pods of an earlier revision that are deleted next: all that are not ready, and a ready
// one if no pod is unavailable (updateStatefulSetAfterInvariantEstablished with maxUnavailable 1). With OnDelete, it
// returns none.
func podsToUpdate(set *appsv1.StatefulSet, byOrdinal map[int32]*corev1.Pod, revision string) []*corev1.Pod {
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	var ready, out []*corev1.Pod
	isAvailable := true
	for ordinal := ptr.Deref(set.Spec.Replicas, 1) - 1; ordinal >= 0; ordinal-- {
		pod := byOrdinal[ordinal]
		isUnavailable := pod == nil || pod.DeletionTimestamp != nil || !isRunningAndReady(pod)
		isAvailable = isAvailable && !isUnavailable
		switch {
		case pod == nil || pod.DeletionTimestamp != nil || isTerminal(pod) ||
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision:
		case isUnavailable:
			out = append(out, pod)
		default:
			ready = append(ready, pod)
		}
	}
	if isAvailable && len(ready) > 0 {
		out = append(out, ready[0])
	}
	return out
}

func isRunningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && isReady(pod)
}

// updateStatus counts pods (computeReplicaStatus). A terminating pod can be ready.
func (c *statefulSetController) updateStatus(set *appsv1.StatefulSet, pods []*corev1.Pod, revision string) {
	status := &set.Status
	status.ObservedGeneration, status.UpdateRevision = set.Generation, revision
	status.Replicas, status.ReadyReplicas, status.UpdatedReplicas = 0, 0, 0
	for _, pod := range pods {
		status.Replicas++
		if isRunningAndReady(pod) {
			status.ReadyReplicas++
		}
		if pod.DeletionTimestamp == nil && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision {
			status.UpdatedReplicas++
		}
	}
	isRolledOut := status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == status.Replicas &&
		set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType // before Kubernetes 1.37
	if status.CurrentRevision == "" || isRolledOut {
		status.CurrentRevision = revision
	}
}

func (c *statefulSetController) createPod(set *appsv1.StatefulSet, ordinal int32, revision string) error {
	name := fmt.Sprintf("%s-%d", set.Name, ordinal)
	pod := newPodOf(set, &set.Spec.Template, name, name)
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(int(ordinal))
	pod.Labels[appsv1.StatefulSetPodNameLabel] = name
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	_, err := c.api.create(pod)
	c.podVersion[set.UID] = c.api.versions[podKind]
	return err
}

// revisionOf returns the revision of the template of a set.
func revisionOf(set *appsv1.StatefulSet) string {
	text, err := json.Marshal(set.Spec.Template)
	if err != nil {
		panic(err) // a template is always encodable
	}
	hash := fnv.New32a()
	_, _ = hash.Write(text) // a hash never fails
	return strconv.FormatUint(uint64(hash.Sum32()), 36)
}
