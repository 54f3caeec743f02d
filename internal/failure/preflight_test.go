package failure_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// withCheck returns a change that gives a pod an init container that exited. The kubelet restarts it if isRestarted is
// true, and fails the pod otherwise.
func withCheck(name string, exitCode int32, isRestarted bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitCode, Reason: "Error", FinishedAt: metav1.NewTime(podtest.At(20)), Message: "the link is slow",
		}}
		status := corev1.ContainerStatus{Name: name, State: terminated}
		if isRestarted {
			status.State, status.LastTerminationState = corev1.ContainerState{}, terminated
		} else {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
		p.Status.ContainerStatuses = nil
	}
}

// TestPreflight checks which failure the exit of an init container is.
func TestPreflight(t *testing.T) {
	for name, c := range map[string]struct {
		change                       func(*corev1.Pod)
		want                         string
		wantDisruption, wantHardware bool
	}{
		"the node must not be used": {
			change: withCheck("check", 20, false), want: failure.ReasonPreflightFailed, wantDisruption: true, wantHardware: true,
		},
		"the check runs again in its pod": {
			change: withCheck("check", 20, true), want: failure.ReasonPreflightFailed, wantDisruption: true, wantHardware: true,
		},
		"no node helps": {
			change: withCheck("check", 30, false), want: failure.ReasonPreflightFailed, wantDisruption: true, wantHardware: true,
		},
		"a device is unhealthy, too": {
			change: func(p *corev1.Pod) {
				withCheck("check", 30, false)(p)
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer"}}
				withDevice(corev1.ResourceHealthStatusUnhealthy)(p)
			},
			want: failure.ReasonPreflightFailed, wantDisruption: true, wantHardware: true,
		},
		"the check has an error of its own": {change: withCheck("check", 1, false), want: "Error"},
		"another init container":            {change: withCheck("fetch", 20, false), want: "Error"},
		"the check passes":                  {change: withCheck("check", 0, true)},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, c.change)}
			f := failure.First(pods, 0, failure.Context{Preflight: "check"})
			if f == nil {
				if c.want != "" {
					t.Fatalf("no failure, want %s", c.want)
				}
				return
			}
			if f.Reason != c.want || f.Rank != 1 || !f.Auxiliary || f.Message != "the link is slow" {
				t.Errorf("failure %+v, want %s of rank 1", f, c.want)
			}
			if f.IsDisruption() != c.wantDisruption || f.IsHardwareFault() != c.wantHardware {
				t.Errorf("disruption %t, hardware fault %t", f.IsDisruption(), f.IsHardwareFault())
			}
		})
	}
}
