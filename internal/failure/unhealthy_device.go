package failure

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// IsDeviceUnhealthy reports whether a kubelet reports that a device of a container is unhealthy (KEP-4680). A kubelet
// never acts on the report. The feature gate ResourceHealthStatus is on from Kubernetes 1.36.
func IsDeviceUnhealthy(c corev1.ContainerStatus) bool {
	return slices.ContainsFunc(c.AllocatedResourcesStatus, func(r corev1.ResourceStatus) bool {
		return slices.ContainsFunc(r.Resources, func(h corev1.ResourceHealth) bool {
			return h.Health == corev1.ResourceHealthStatusUnhealthy
		})
	})
}

// HasUnhealthyDevice reports whether a device of a training container of a pod is unhealthy. No names stand for all
// containers.
func HasUnhealthyDevice(pod *corev1.Pod, trainingContainers []string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return IsTrainingContainer(c.Name, trainingContainers) && IsDeviceUnhealthy(c)
	})
}

// deviceFailure returns the failure of a pod that has had an unhealthy device for some time; nil if it has not.
func (c Context) deviceFailure(pod *corev1.Pod) *Failure {
	since, isUnhealthy := c.UnhealthyPods[pod.UID]
	if !isUnhealthy {
		return nil
	}
	return &Failure{Reason: ReasonDeviceUnhealthy, Time: since.UTC().Truncate(time.Second)}
}

// attributeToDevice returns a failure of a container, or the failure of its unhealthy device if nothing else seems to
// be the cause. A program usually fails before its device was unhealthy for some time. The kubelet does not give such
// a device to the next pod, so the failure does not repeat itself. A preflight check that fails is the cause, because
// its exit code decides whether the gang avoids the node or fails.
func (c Context) attributeToDevice(pod *corev1.Pod, f *Failure) *Failure {
	if f.IsFailedPreflight() || !f.MayBeHardwareFault() || !HasUnhealthyDevice(pod, c.TrainingContainers) {
		return f
	}
	return &Failure{
		Reason: ReasonDeviceUnhealthy, Time: f.Time,
		Message: fmt.Sprintf("container %s exited with code %d", f.Container, f.ExitCode),
	}
}
