package lifecycle_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

func TestNotReadyRanks(t *testing.T) {
	pending := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}}
		}
	}
	image := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer",
			State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
			}}}}
	}
	pods := []corev1.Pod{
		podtest.RankPod(0, nil),
		podtest.RankPod(1, pending("Unschedulable", "0/3 nodes are available")),
		podtest.RankPod(2, image),
	}
	got := lifecycle.NotReadyRanks(pods, gang.Member{Size: 6}, 1, nil)
	want := []string{
		"rank 2: Unschedulable: 0/3 nodes are available",
		"rank 3: container trainer: ImagePullBackOff: no such image",
		"rank 4: has no pod",
		"and 2 more",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNotReadyRanksOfHugeStatefulSet checks that only the pods determine the cost: the number of replicas has no
// limit. A pod outside of the range does not count, because a resize deletes it.
func TestNotReadyRanksOfHugeStatefulSet(t *testing.T) {
	pods := []corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(math.MaxInt32, nil)}
	got := lifecycle.NotReadyRanks(pods, gang.Member{Size: math.MaxInt32}, 0, nil)
	want := []string{"rank 1: has no pod", "rank 2: has no pod", "rank 3: has no pod", "and 2147483643 more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
