package failure_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestLostContainer checks that the exit of a container is a disruption if its node lost the container. The peer of the
// rank fails three seconds before.
func TestLostContainer(t *testing.T) {
	terminated := func(code int32, restarted bool, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			podtest.Terminated(code, 20, restarted)(p)
			status := &p.Status.ContainerStatuses[0]
			for _, state := range []*corev1.ContainerStateTerminated{
				status.State.Terminated, status.LastTerminationState.Terminated,
			} {
				if state != nil {
					state.Reason, state.Message = reason, ""
				}
			}
		}
	}
	const unknown = "ContainerStatusUnknown"
	for name, c := range map[string]struct {
		change     func(*corev1.Pod)
		disruption bool
	}{
		"containerd started without the container":            {change: terminated(255, false, "Unknown"), disruption: true},
		"the container runs again":                            {change: terminated(255, true, "Unknown"), disruption: true},
		"the kubelet does not find the container":             {change: terminated(137, false, unknown), disruption: true},
		"the program exits with the code of a lost container": {change: terminated(255, false, "Error")},
	} {
		t.Run(name, func(t *testing.T) {
			peer := podtest.RankPod(0, podtest.Terminated(1, 17, false))
			f := failure.First([]corev1.Pod{peer, podtest.RankPod(1, c.change)}, 0, failure.Context{})
			if f == nil || f.IsDisruption() != c.disruption || f.IsLostContainer() != c.disruption {
				t.Fatalf("failure %+v, want a disruption: %t", f, c.disruption)
			}
			if c.disruption && (f.Rank != 1 || f.Container == "" || f.Message == "") {
				t.Errorf("failure %+v, want the lost container of rank 1", f)
			}
		})
	}
}
