package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Lacking says which ranks of a member are not ready and why, of the first few: what a
// user has to know of a gang that does not become whole. The names are those of its
// training containers, for [Done].
func Lacking(pods []corev1.Pod, m Member, offset int32, trains []string) []string {
	const most = 3
	byIndex := map[int32]*corev1.Pod{}
	for i := range pods {
		byIndex[IndexOf(&pods[i])] = &pods[i]
	}
	var out []string
	lacking := 0
	for i := range m.Size {
		pod := byIndex[i]
		if pod != nil && (podReady(pod) || Done(pod, trains)) {
			continue
		}
		if lacking++; lacking <= most {
			out = append(out, fmt.Sprintf("rank %d: %s", offset+i, unready(pod)))
		}
	}
	if lacking > most {
		out = append(out, fmt.Sprintf("and %d more", lacking-most))
	}
	return out
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// unready says why a pod is not ready.
func unready(pod *corev1.Pod) string {
	if pod == nil {
		return "has no pod"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %s", c.Reason, tail(c.Message))
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(fmt.Sprintf("container %s: %s: %s", c.Name, w.Reason, tail(w.Message)), ": ")
		}
	}
	return fmt.Sprintf("is %s on node %s", cmp.Or(string(pod.Status.Phase), "Pending"), pod.Spec.NodeName)
}
