package inspect

import (
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/lifecycle"
)

// newRank describes one rank by its pod, which may be nil.
func newRank(rank int32, m Member, pod *corev1.Pod) Rank {
	r := Rank{Rank: rank, Member: m.Name, Role: m.Role, Object: pod}
	r.State, r.Reason = lifecycle.DescribeRank(pod, m.Containers)
	if pod == nil {
		if m.Completed {
			r.State = lifecycle.RankSucceeded
		}
		return r
	}
	r.Pod, r.Node = pod.Name, pod.Spec.NodeName
	for _, c := range pod.Status.ContainerStatuses {
		r.ContainerRestarts += c.RestartCount
	}
	return r
}
