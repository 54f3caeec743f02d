package failure_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// withDevice returns a change that gives the first container of a pod a device with a health.
func withDevice(health corev1.ResourceHealthStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.UID = "sick"
		podtest.SetDeviceHealth(&p.Status.ContainerStatuses[0], health)
	}
}

// TestUnhealthyDevice checks which failure an unhealthy device is.
func TestUnhealthyDevice(t *testing.T) {
	unhealthy := withDevice(corev1.ResourceHealthStatusUnhealthy)
	changes := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	long := map[types.UID]time.Time{"sick": podtest.At(30).Add(time.Millisecond)}
	for name, c := range map[string]struct {
		change  func(*corev1.Pod)
		context failure.Context
		want    string
		seconds int
	}{
		"for some time": {
			change: unhealthy, context: failure.Context{UnhealthyPods: long}, want: failure.ReasonDeviceUnhealthy, seconds: 30,
		},
		"for a short time": {change: unhealthy},
		"the program exits and runs again": {
			change: changes(unhealthy, podtest.Terminated(1, 20, true)), want: failure.ReasonDeviceUnhealthy, seconds: 20,
		},
		"the program exits with its pod": {
			change: changes(unhealthy, podtest.Terminated(1, 20, false), failed),
			want:   failure.ReasonDeviceUnhealthy, seconds: 20,
		},
		"the device is healthy": {
			change: changes(withDevice(corev1.ResourceHealthStatusHealthy), podtest.Terminated(1, 20, true)),
			want:   "Error", seconds: 20,
		},
		"the health is not known": {
			change: changes(withDevice(corev1.ResourceHealthStatusUnknown), podtest.Terminated(1, 20, true)),
			want:   "Error", seconds: 20,
		},
		"the device of a sidecar": {
			change:  changes(unhealthy, podtest.Terminated(1, 20, true)),
			context: failure.Context{TrainingContainers: []string{"other"}},
		},
		"the container exceeded its memory": {
			change: changes(unhealthy, podtest.Terminated(137, 20, true), func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "OOMKilled"
			}),
			want: "OOMKilled", seconds: 20,
		},
		"the pod is deleted": {
			change:  changes(unhealthy, podtest.Deleted(35)),
			context: failure.Context{UnhealthyPods: long}, want: failure.ReasonPodDeleted, seconds: 35,
		},
		"the rank has succeeded": {change: changes(unhealthy, podtest.Terminated(0, 20, false))},
	} {
		t.Run(name, func(t *testing.T) {
			f := failure.First([]corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, c.change)}, 0, c.context)
			if f == nil {
				if c.want != "" {
					t.Fatalf("no failure, want %s", c.want)
				}
				return
			}
			isDevice := c.want == failure.ReasonDeviceUnhealthy
			if f.Reason != c.want || f.Rank != 1 || f.Node != "node-a" || !f.Time.Equal(podtest.At(c.seconds)) {
				t.Errorf("failure %+v", f)
			}
			if f.IsHardwareFault() != isDevice || isDevice && !f.IsDisruption() {
				t.Errorf("hardware %t, disruption %t", f.IsHardwareFault(), f.IsDisruption())
			}
		})
	}
}
