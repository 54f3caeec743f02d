package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// scheduler assigns each new pod to a node.
type scheduler struct {
	w     *world
	api   *api
	nodes []*node
	// room is the number of pods for which the nodes have room; 0 for any number.
	room int
}

func newScheduler(a *api, nodes []*node) *scheduler {
	s := &scheduler{w: a.w, api: a, nodes: nodes}
	a.watch(podKind, "scheduler/pods", nil, func(_, after client.Object) {
		pod, ok := after.(*corev1.Pod)
		if ok && pod.Spec.NodeName == "" && pod.Spec.NodeSelector == nil && pod.DeletionTimestamp == nil {
			s.w.after("scheduler/bind", func() { s.bind(pod) })
		}
	})
	return s
}

func (s *scheduler) bind(pod *corev1.Pod) {
	o := s.api.find(podKind, pod.Name)
	if o == nil || o.GetUID() != pod.UID || o.(*corev1.Pod).Spec.NodeName != "" || o.GetDeletionTimestamp() != nil {
		return
	}
	usable := slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool {
		return n.lost || isExcluded(o.(*corev1.Pod), n.name)
	})
	if len(usable) == 0 || s.room > 0 && s.countBound() >= s.room {
		s.w.at(s.w.now.Add(10*time.Second), func() { s.bind(pod) })
		return
	}
	bound := clone(o.(*corev1.Pod))
	i := int(gang.PodIndex(pod)) % len(usable) // fixed sequences name the nodes of ranks
	if !s.w.calm["*"] {
		i = s.w.stream("scheduler/node").IntN(len(usable))
	}
	bound.Spec.NodeName = usable[i].name
	bound.ResourceVersion = ""
	_, _ = s.api.update(bound, "") // a pod that is gone needs no node
}

// countBound returns the number of pods that use a node.
func (s *scheduler) countBound() int {
	n := 0
	for _, o := range s.api.list(podKind) {
		if pod := o.(*corev1.Pod); pod.Spec.NodeName != "" && !isTerminal(pod) {
			n++
		}
	}
	return n
}

// isExcluded reports whether the node affinity of a pod excludes a node. Scenarios have no other affinity.
func isExcluded(pod *corev1.Pod, node string) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.Contains(terms[0].MatchExpressions[0].Values, node)
}
