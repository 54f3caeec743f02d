package lifecycle_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestStatefulSetCompletion checks that a StatefulSet is complete when all of its ranks
// succeeded, or its first rank if it completes with that rank. Sidecars may still run.
func TestStatefulSetCompletion(t *testing.T) {
	trainingContainers := []string{"trainer"}
	pods := func(done ...int) []corev1.Pod {
		var out []corev1.Pod
		for i := range 3 {
			p := podtest.RankPod(i, podtest.WithSidecar(-1, 0))
			for _, d := range done {
				if d == i {
					podtest.Terminated(0, 20, true)(&p)
				}
			}
			podtest.OfStatefulSet(&p)
			out = append(out, p)
		}
		return out
	}
	for name, c := range map[string]struct {
		completesWithFirstPod bool
		succeeded             []int
		phase                 lifecycle.Phase
		want                  bool
	}{
		"all ranks succeeded":        {succeeded: []int{0, 1, 2}, phase: lifecycle.Running, want: true},
		"one rank has not succeeded": {succeeded: []int{0, 1}, phase: lifecycle.Running},
		"first rank completes the member": {
			completesWithFirstPod: true,
			succeeded:             []int{0},
			phase:                 lifecycle.Running,
			want:                  true,
		},
		"other ranks do not complete the member": {
			completesWithFirstPod: true,
			succeeded:             []int{1, 2},
			phase:                 lifecycle.Running,
		},
		"exit during a restart does not complete the member": {
			completesWithFirstPod: true,
			succeeded:             []int{0},
			phase:                 lifecycle.Restarting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			member := lifecycle.MemberState{
				Member:                gang.Member{WorkloadName: "train", Size: 3},
				Exists:                true,
				CompletesWithFirstPod: c.completesWithFirstPod,
				Observed:              lifecycle.Observation{IsStatefulSet: true, Size: 3},
			}
			if got := member.IsStatefulSetComplete(pods(c.succeeded...), trainingContainers, c.phase); got != c.want {
				t.Errorf("complete is %v after ranks %s succeeded", got, fmt.Sprint(c.succeeded))
			}
		})
	}
}
