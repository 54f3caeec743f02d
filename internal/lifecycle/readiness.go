package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// RankState is the state of one rank, as its pod shows it.
type RankState string

// The states of a rank.
const (
	// RankReady means that the pod of the rank is ready.
	RankReady RankState = "ready"
	// RankPending means that the pod waits for a node, an image or a probe, or that it starts.
	RankPending RankState = "pending"
	// RankFailed means that the pod or one of its training containers failed.
	RankFailed RankState = "failed"
	// RankSucceeded means that the rank succeeded, as [failure.RankSucceeded] defines it.
	RankSucceeded RankState = "succeeded"
	// RankTerminating means that the pod is being deleted.
	RankTerminating RankState = "terminating"
	// RankMissing means that the rank has no pod.
	RankMissing RankState = "missing"
)

// maxListedRanks is the number of ranks for which [NotReadyRanks] gives a reason. The list is part
// of the status of the gang, which must stay short.
const maxListedRanks = 3

// NotReadyRanks lists the ranks of a member that are neither ready nor succeeded, each with the
// reason. It lists the first [maxListedRanks] ranks and counts the others. The rank of the
// member's first pod is offset. No names of training containers stands for all containers.
func NotReadyRanks(pods []corev1.Pod, m gang.Member, offset int32, trainingContainers []string) []string {
	byIndex := NewestPods(pods, m.Size)
	isNotReady := func(index int32) bool {
		state := classifyRank(byIndex[index], trainingContainers)
		return state != RankReady && state != RankSucceeded
	}
	notReady := m.Size
	for index := range byIndex {
		if !isNotReady(index) {
			notReady--
		}
	}
	var out []string
	for i := int32(0); len(out) < int(min(notReady, maxListedRanks)); i++ {
		if isNotReady(i) {
			_, reason := DescribeRank(byIndex[i], trainingContainers)
			out = append(out, fmt.Sprintf("rank %d: %s", offset+i, cmp.Or(failure.TruncateMessage(reason), "has no pod")))
		}
	}
	if notReady > maxListedRanks {
		out = append(out, fmt.Sprintf("and %d more", notReady-maxListedRanks))
	}
	return out
}

// NewestPods returns the newest pod of each index. A Job keeps the failed pods that it replaced, and the pods that
// succeeded in an earlier attempt. A pod with an index beyond the size has no rank: a resize deletes it. The size of a
// StatefulSet has no limit, so only the pods determine the time and the memory.
func NewestPods(pods []corev1.Pod, size int32) map[int32]*corev1.Pod {
	byIndex := make(map[int32]*corev1.Pod, len(pods))
	for i := range pods {
		pod, index := &pods[i], gang.PodIndex(&pods[i])
		if index < 0 || index >= size {
			continue
		}
		if current := byIndex[index]; current == nil || isNewerPod(pod, current) {
			byIndex[index] = pod
		}
	}
	return byIndex
}

// isNewerPod reports whether a replaced b. Creation times have a resolution of one second. If they
// are equal, a pod that is not being deleted is newer than a pod that is.
func isNewerPod(a, b *corev1.Pod) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c > 0
	}
	return a.DeletionTimestamp == nil && (b.DeletionTimestamp != nil || a.Name > b.Name)
}

// DescribeRank returns the state of the rank of a pod and the reason for which the rank is not
// ready. A nil pod stands for a rank that has no pod. The reason is empty for a rank that is ready,
// succeeded or missing.
func DescribeRank(pod *corev1.Pod, trainingContainers []string) (RankState, string) {
	state := classifyRank(pod, trainingContainers)
	switch state {
	case RankFailed:
		return state, failureReason(pod, trainingContainers)
	case RankPending:
		return state, pendingReason(pod)
	case RankTerminating:
		return state, terminatingReason(pod)
	default:
		return state, ""
	}
}

// classifyRank returns the state of the rank of a pod, which may be nil. A terminating pod is never
// ready, because the conditions of a pod on a lost node stay as they are.
func classifyRank(pod *corev1.Pod, trainingContainers []string) RankState {
	switch {
	case pod == nil:
		return RankMissing
	case pod.Status.Phase == corev1.PodSucceeded:
		return RankSucceeded
	case pod.DeletionTimestamp != nil:
		return RankTerminating
	case IsPodReady(pod):
		return RankReady
	case pod.Status.Phase == corev1.PodFailed || anyTrainingContainerFailed(pod, trainingContainers):
		return RankFailed
	case failure.RankSucceeded(pod, trainingContainers):
		return RankSucceeded
	default:
		return RankPending
	}
}

// IsPodReady reports whether a pod has the condition Ready.
func IsPodReady(pod *corev1.Pod) bool {
	return failure.FindCondition(pod, corev1.PodReady, corev1.ConditionTrue).Type != ""
}

// anyTrainingContainerFailed reports whether a training container failed and does not run again yet.
func anyTrainingContainerFailed(pod *corev1.Pod, trainingContainers []string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		terminated := c.State.Terminated
		if terminated == nil && c.State.Waiting != nil {
			terminated = c.LastTerminationState.Terminated
		}
		return terminated != nil && terminated.ExitCode != 0 && failure.IsTrainingContainer(c.Name, trainingContainers)
	})
}

// failureReason returns the text of the failure that the gang would record for the pod, without
// its rank.
func failureReason(pod *corev1.Pod, trainingContainers []string) string {
	f := failure.First([]corev1.Pod{*pod}, 0, failure.Context{TrainingContainers: trainingContainers})
	if f == nil {
		return cmp.Or(pod.Status.Reason, string(pod.Status.Phase))
	}
	f.Rank = -1 // callers print the rank
	return f.String()
}

// pendingReason returns what a pod waits for: a node, a container, or the kubelet.
func pendingReason(pod *corev1.Pod) string {
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 {
		// The condition PodScheduled does not contain the name of the gate.
		return "blocked by the scheduling gate " + gates[0].Name
	}
	if c := failure.FindCondition(pod, corev1.PodScheduled, corev1.ConditionFalse); c.Type != "" {
		return joinNonEmpty(c.Reason, c.Message)
	}
	if reason := containerPendingReason(pod); reason != "" {
		return reason
	}
	switch {
	case failure.IsOnLostNode(pod):
		return failure.ReasonNodeLost + ": node " + pod.Spec.NodeName + " does not report"
	case pod.Spec.NodeName == "":
		return "not scheduled yet"
	case pod.Status.Phase == corev1.PodUnknown:
		return "the node does not report the status of the pod"
	default:
		return "starting"
	}
}

// containerPendingReason names the first container that keeps a pod from being ready. It returns
// the empty string if no container does.
func containerPendingReason(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := c.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" {
			return joinNonEmpty("container "+c.Name, waiting.Reason, waiting.Message)
		}
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Running != nil && (c.Started == nil || !*c.Started) {
			return "init container " + c.Name + " is running"
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running == nil || c.Ready {
			continue
		}
		if stall := describeStall(pod, c.Name); stall != "" {
			return stall
		}
		return "container " + c.Name + " is running but not ready"
	}
	return ""
}

// describeStall returns what the readiness probe of Rollcall finds in a container; empty if it finds nothing. Pods in
// the cache of the controller have no probes.
func describeStall(pod *corev1.Pod, container string) string {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 || findStalledSince(pod, []string{container}).IsZero() {
		return ""
	}
	return gang.DescribeStall(pod.Spec.Containers[i].ReadinessProbe)
}

// terminatingReason returns why a pod is being deleted, the end of its grace period, and its
// finalizers. A pod on a lost node exists beyond its grace period.
func terminatingReason(pod *corev1.Pod) string {
	reason := "deletion due by " + pod.DeletionTimestamp.UTC().Format("15:04:05 UTC")
	reason = joinNonEmpty(failure.FindCondition(pod, corev1.DisruptionTarget, corev1.ConditionTrue).Reason, reason)
	if len(pod.Finalizers) > 0 {
		reason += "; finalizers " + strings.Join(pod.Finalizers, ", ")
	}
	return reason
}

// joinNonEmpty joins the parts that are not empty with colons.
func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}
