package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node is a node with its kubelet. The processes of pods on a lost node run on, but nobody hears of them.
type node struct {
	*world
	api  *api
	name string
	// skew is by how much the clock of the node is ahead.
	skew time.Duration
	// removed is true if the node is lost for good, until a new machine has its name.
	lost, removed bool
	// broken is true while all programs on the node fail some time after they started.
	broken bool
	// lostTime is when the node was lost last.
	lostTime  time.Time
	processes map[types.UID]*process
	pods      *watch
	programs  *programs
}

func newNode(a *api, name string, skew time.Duration, p *programs) *node {
	n := &node{world: a.w, api: a, name: name, skew: skew, processes: map[types.UID]*process{}, programs: p}
	n.pods = a.watch(podKind, "kubelet/"+name+"/pods", nil, n.observePod)
	return n
}

// time returns the time of the node, to the second.
func (n *node) time() metav1.Time { return metav1.NewTime(n.now.Add(n.skew).Truncate(time.Second)) }

// observePod starts the containers of a new pod and terminates those of a deleted pod.
func (n *node) observePod(_, after client.Object) {
	pod, ok := after.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != n.name || n.lost {
		return
	}
	p := n.processes[pod.UID]
	switch {
	case p == nil && pod.DeletionTimestamp == nil && !isTerminal(pod):
		p = &process{node: n, pod: pod}
		n.processes[pod.UID] = p
		n.after("kubelet/"+n.name+"/start", p.start)
	case p == nil && pod.DeletionTimestamp != nil:
		p = &process{node: n, pod: pod, removed: true}
		n.processes[pod.UID] = p
		n.after("kubelet/"+n.name+"/status", p.confirmDeletion)
	case p != nil && pod.DeletionTimestamp != nil && (!p.terminating || p.isTornDown):
		p.terminate(time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 30))*time.Second, p.confirmDeletion)
	}
}

func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	for i, c := range pod.Status.Conditions {
		if c.Type == condition.Type {
			if c.Status == condition.Status {
				condition.LastTransitionTime = c.LastTransitionTime
			}
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// lose disconnects the node. After 50 seconds its pods are not ready, and after the toleration they are
// evicted. They stay until the node returns or is removed.
func (n *node) lose() {
	n.lost, n.lostTime = true, n.now
	n.record("node "+n.name, "is lost")
	n.at(n.now.Add(50*time.Second), func() {
		n.forPods(func(pod *corev1.Pod) {
			setPodCondition(pod, corev1.PodCondition{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: n.api.time(),
			})
		})
	})
	n.at(n.now.Add(80*time.Second), func() {
		n.forPods(func(pod *corev1.Pod) { evict(n.api, pod, "DeletionByTaintManager") })
	})
}

// restart switches the node off for some time. Its containers end at once. When it is back, the container runtime
// reports that they have ended now, with an unknown code (containerd internal/cri/server, loadContainer).
func (n *node) restart(off time.Duration) {
	n.lost, n.lostTime = true, n.now
	n.record("node "+n.name, "restarts")
	var lost []*process
	for _, p := range n.sortedProcesses() {
		if p.alive {
			p.exit(255)
			p.isLost = true
			lost = append(lost, p)
		}
	}
	start := n.now
	n.at(n.now.Add(off), func() {
		if !n.lost || n.lostTime != start {
			return
		}
		for _, p := range lost {
			p.exitTime = n.time().Time
		}
		n.recover()
	})
}

// forPods calls a function with the pods on a node that is still lost, and writes the status that it changed.
func (n *node) forPods(change func(*corev1.Pod)) {
	if !n.lost {
		return
	}
	for _, o := range n.api.list(podKind) {
		pod := clone(o.(*corev1.Pod))
		if pod.Spec.NodeName != n.name || isTerminal(pod) {
			continue
		}
		change(pod)
		_, _ = n.api.update(pod, "status") // a conflict means that it is gone
	}
}

// evict adds the condition DisruptionTarget and deletes a pod.
func evict(a *api, pod *corev1.Pod, reason string) {
	o := a.find(podKind, pod.Name)
	if o == nil || o.GetUID() != pod.UID {
		return
	}
	marked := clone(o.(*corev1.Pod))
	setPodCondition(marked, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: a.time(),
	})
	if _, err := a.update(marked, "status"); err == nil {
		_ = a.delete(podKind, pod.Name, deleteOptions{uid: pod.UID}) // it exists
	}
}

// recover reconnects the node. Its kubelet sees all pods again.
func (n *node) recover() {
	n.lost, n.removed = false, false
	n.record("node "+n.name, "returns")
	for _, o := range n.api.list(podKind) {
		n.observePod(nil, o)
	}
	for _, p := range n.sortedProcesses() {
		if o := n.api.find(podKind, p.pod.Name); o == nil || o.GetUID() != p.pod.UID {
			p.kill()
		} else if p.byKubelet && !p.alive {
			n.after("kubelet/"+n.name+"/status", p.tearDown)
		} else if p.terminating && !p.alive {
			n.after("kubelet/"+n.name+"/status", p.confirmDeletion)
		} else {
			if !p.exited || p.isRestarted() { // the node was lost before the container started
				p.start()
			}
			p.report()
		}
	}
}

// remove deletes the node for good. The garbage collector of pods then deletes its pods.
func (n *node) remove() {
	n.removed = true
	n.record("node "+n.name, "is removed")
	for _, p := range n.sortedProcesses() {
		p.kill()
	}
	n.at(n.now.Add(20*time.Second), func() {
		for _, o := range n.api.list(podKind) {
			pod := clone(o.(*corev1.Pod))
			if pod.Spec.NodeName != n.name {
				continue
			}
			if !isTerminal(pod) {
				pod.Status.Phase = corev1.PodFailed
				setPodCondition(pod, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
					LastTransitionTime: n.api.time(),
				})
				_, _ = n.api.update(pod, "status") // it exists
			}
			_ = n.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID, force: true}) // it exists
		}
	})
}

// sortedProcesses returns the processes of a node in the order of their pods' names.
func (n *node) sortedProcesses() []*process {
	out := slices.Collect(maps.Values(n.processes))
	slices.SortFunc(out, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return out
}
