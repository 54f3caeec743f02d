package lifecycle

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
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
		known                 sets.Set[int32]
		phase                 Phase
		want                  bool
	}{
		"all ranks succeeded":        {succeeded: []int{0, 1, 2}, phase: Running, want: true},
		"one rank has not succeeded": {succeeded: []int{0, 1}, phase: Running},
		"the third rank succeeded before, and runs again": {
			succeeded: []int{0, 1}, known: sets.New[int32](2), phase: Running, want: true,
		},
		"first rank completes the member": {
			completesWithFirstPod: true,
			succeeded:             []int{0},
			phase:                 Running,
			want:                  true,
		},
		"other ranks do not complete the member": {
			completesWithFirstPod: true,
			succeeded:             []int{1, 2},
			phase:                 Running,
		},
		"exit during a restart does not complete the member": {
			completesWithFirstPod: true,
			succeeded:             []int{0},
			phase:                 Restarting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{
				Pods: pods(c.succeeded...), Workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{}},
			}
			member := MemberState{
				Member:                gang.Member{WorkloadName: "train", Size: 3},
				Exists:                true,
				CompletesWithFirstPod: c.completesWithFirstPod,
				Observed:              Observation{IsStatefulSet: true, Size: 3},
			}
			if got := w.isStatefulSetComplete(member, c.known, trainingContainers, c.phase); got != c.want {
				t.Errorf("complete is %v after ranks %s succeeded", got, fmt.Sprint(c.succeeded))
			}
		})
	}
}
