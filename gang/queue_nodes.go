package gang

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// QueueNodes are the fields of a pod template that select the nodes on which a queue admitted a workload.
type QueueNodes struct {
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
}

// AddTo adds the fields to those of a pod template, and returns what the template did not contain. The error
// means that the template requires other nodes.
func (n QueueNodes) AddTo(spec *corev1.PodSpec) (QueueNodes, error) {
	added, selector := QueueNodes{NodeSelector: map[string]string{}}, map[string]string{}
	maps.Copy(selector, spec.NodeSelector)
	for key, value := range n.NodeSelector {
		switch have, isSet := selector[key]; {
		case !isSet:
			selector[key], added.NodeSelector[key] = value, value
		case have != value:
			return QueueNodes{}, fmt.Errorf("a flavor with %s=%s for pods with %s", key, value, have)
		}
	}
	for _, t := range n.Tolerations {
		if !hasToleration(slices.Concat(spec.Tolerations, added.Tolerations), t) {
			added.Tolerations = append(added.Tolerations, t)
		}
	}
	spec.NodeSelector, spec.Tolerations = selector, slices.Concat(spec.Tolerations, added.Tolerations)
	return added, nil
}

// RemoveFrom removes from a pod template what AddTo added to it, except what somebody else has changed.
func (n QueueNodes) RemoveFrom(spec *corev1.PodSpec) {
	maps.DeleteFunc(spec.NodeSelector, func(key, value string) bool {
		added, isAdded := n.NodeSelector[key]
		return isAdded && added == value
	})
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return hasToleration(n.Tolerations, t)
	})
}

func hasToleration(list []corev1.Toleration, t corev1.Toleration) bool {
	return slices.ContainsFunc(list, func(have corev1.Toleration) bool { return have.MatchToleration(&t) })
}
