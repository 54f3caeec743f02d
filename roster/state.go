package roster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// rankOf describes one rank by its pod, which may be nil.
func rankOf(rank int32, m Member, pod *corev1.Pod) Rank {
	r := Rank{Rank: rank, Member: m.Name, Role: m.Role, State: stateOf(pod, m.Containers), Object: pod}
	if pod == nil {
		return r
	}
	r.Pod, r.Node = pod.Name, pod.Spec.NodeName
	for _, c := range pod.Status.ContainerStatuses {
		r.Restarts += c.RestartCount
	}
	switch r.State {
	case Failed:
		r.Reason = failure(pod, m.Containers)
	case Waiting:
		r.Reason = waiting(pod)
	case Stopping:
		r.Reason = stopping(pod)
	}
	return r
}

func stateOf(pod *corev1.Pod, trains []string) State {
	switch {
	case pod == nil:
		return Absent
	case pod.Status.Phase == corev1.PodSucceeded:
		return Done
	case pod.DeletionTimestamp != nil:
		return Stopping
	case ready(pod):
		return Ready
	case pod.Status.Phase == corev1.PodFailed || slices.ContainsFunc(pod.Status.ContainerStatuses, broken(trains)):
		return Failed
	case gang.Done(pod, trains):
		return Done
	default:
		return Waiting
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// broken finds a training container that failed and does not run again yet.
func broken(trains []string) func(corev1.ContainerStatus) bool {
	return func(c corev1.ContainerStatus) bool {
		t := c.State.Terminated
		if t == nil && c.State.Waiting != nil {
			t = c.LastTerminationState.Terminated
		}
		return t != nil && t.ExitCode != 0 && (len(trains) == 0 || slices.Contains(trains, c.Name))
	}
}

// failure says why a pod failed: what the gang would be told of it.
func failure(pod *corev1.Pod, trains []string) string {
	f := gang.FirstFall([]corev1.Pod{*pod}, 0, gang.Watch{Trains: trains})
	if f == nil {
		return cmp.Or(pod.Status.Reason, string(pod.Status.Phase))
	}
	f.Rank = -1 // said beside it
	return f.String()
}

// waiting says what a pod waits for: a node, a container, or the kubelet.
func waiting(pod *corev1.Pod) string {
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 {
		return "held by the scheduling gate " + gates[0].Name // which the condition does not name
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return join(c.Reason, c.Message)
		}
	}
	if reason := unstarted(pod); reason != "" {
		return reason
	}
	switch {
	case pod.Spec.NodeName == "":
		return "not scheduled yet"
	case pod.Status.Phase == corev1.PodUnknown:
		return "its node does not report"
	default:
		return "starting"
	}
}

// unstarted says which container a pod waits for; empty when no container says so.
func unstarted(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return join("container "+c.Name, w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Running != nil && (c.Started == nil || !*c.Started) {
			return "init container " + c.Name + " runs"
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil && !c.Ready {
			return "container " + c.Name + " runs and is not ready"
		}
	}
	return ""
}

// stopping says since when a pod should be gone, which a pod on a dead node never is.
func stopping(pod *corev1.Pod) string {
	reason := fmt.Sprintf("to be gone by %s", pod.DeletionTimestamp.UTC().Format("15:04:05 UTC"))
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			reason = join(c.Reason, reason)
		}
	}
	if len(pod.Finalizers) > 0 {
		reason += "; finalizers " + strings.Join(pod.Finalizers, ", ")
	}
	return reason
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}
