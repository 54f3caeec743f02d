package failure

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// findLostNode returns when Kubernetes found that the node of a pod does not report any more; zero if the node
// reports, or if that is not known. After 50 seconds without a lease, the node lifecycle controller sets the
// condition Ready of the pods of a node to False and its reason to nothing (kubernetes pkg/controller/util/node,
// MarkPodsNotReady). Kubelets always give a reason, and the containers of a pod that is not ready are not ready
// either. So a lost node shows in its pods, without permission to read nodes. A pod with readiness gates depends on
// other controllers, and does not count. The condition takes itself back when the node returns.
func findLostNode(pod *corev1.Pod) time.Time {
	notReady := FindCondition(pod, corev1.PodReady, corev1.ConditionFalse)
	areContainersReady := FindCondition(pod, corev1.ContainersReady, corev1.ConditionTrue).Type != ""
	isTerminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if notReady.Reason != "" || !areContainersReady || isTerminal || len(pod.Spec.ReadinessGates) > 0 {
		return time.Time{}
	}
	return notReady.LastTransitionTime.Time
}

// IsOnLostNode reports whether the node of a pod does not report any more; see [findLostNode].
func IsOnLostNode(pod *corev1.Pod) bool { return !findLostNode(pod).IsZero() }

// lostNodeFailure returns the failure of a pod on a lost node; nil if its node is not lost or does not count. A node
// that was lost before the attempt started does not count: a late cache can contain a pod of the attempt before.
func (c Context) lostNodeFailure(pod *corev1.Pod) *Failure {
	lost := findLostNode(pod)
	if c.IgnoresLostNodes || lost.IsZero() || !lost.After(c.AttemptStartTime) {
		return nil
	}
	return &Failure{Reason: ReasonNodeLost, Time: lost}
}

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

// IsFailedPreflight reports whether a preflight check caused a failure, which may be nil.
func (f *Failure) IsFailedPreflight() bool {
	return f != nil && f.Reason == ReasonPreflightFailed
}

// preflightFailures returns the failures of the preflight check, as containerFailures does. The check of a pod that is
// terminated may exit with any code, but programs do not choose these codes for that.
func (c Context) preflightFailures(pod *corev1.Pod) (previous, current *Failure) {
	if c.Preflight == "" {
		return nil, nil
	}
	markFailed := func(f *Failure) *Failure {
		if f == nil || f.ExitCode != gang.PreflightNodeFailed && f.ExitCode != gang.PreflightFatal {
			return nil
		}
		f.Reason, f.Auxiliary, f.LostPeer = ReasonPreflightFailed, true, false
		return f
	}
	previous, current = containerFailures(pod, pod.Status.InitContainerStatuses, []string{c.Preflight})
	return markFailed(previous), markFailed(current)
}
