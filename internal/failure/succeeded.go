package failure

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// RankSucceeded reports whether a rank has succeeded. A pod of a Job succeeds if all of its containers
// do. A pod of a StatefulSet succeeds if the last exit of each training container was a success,
// because the kubelet restarts them. No names mean that all containers are training containers.
//
// A stalled rank has not succeeded, even if its program exited with code 0 on SIGTERM. A container of a Job that runs
// again after exit code 0 has not either: a failed probe terminated it.
//
// A program that exits with code 0 on SIGTERM has not finished its work. If the kubelet terminates a pod
// because of an eviction or the shutdown of its node, the pod has no deletion timestamp. Its phase is
// then Succeeded if all containers exited with code 0, and Failed otherwise.
func RankSucceeded(pod *corev1.Pod, trainingContainers []string) bool {
	_, isStatefulSetPod := pod.Labels[appsv1.PodIndexLabel]
	isStalled := func(c corev1.ContainerStatus) bool {
		terminated := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		return terminated != nil && parseStallReport(terminated.Message, terminated.FinishedAt.Time) != nil
	}
	if slices.ContainsFunc(pod.Status.ContainerStatuses, isStalled) {
		return false
	}
	switch phase := pod.Status.Phase; {
	case phase == corev1.PodFailed:
		return false
	case phase == corev1.PodSucceeded:
		return !isTerminatedByKubelet(pod)
	case !isStatefulSetPod:
		trainingContainers = nil
	}
	succeeded := 0
	for _, c := range pod.Status.ContainerStatuses {
		if !IsTrainingContainer(c.Name, trainingContainers) {
			continue
		}
		terminated := c.State.Terminated
		if isStatefulSetPod {
			terminated = cmp.Or(terminated, c.LastTerminationState.Terminated)
		}
		if terminated == nil || terminated.ExitCode != 0 {
			return false
		}
		succeeded++
	}
	return succeeded > 0
}

// IsTrainingContainer reports whether a name is that of a training container. No names stand for all containers.
func IsTrainingContainer(name string, trainingContainers []string) bool {
	return len(trainingContainers) == 0 || slices.Contains(trainingContainers, name)
}
