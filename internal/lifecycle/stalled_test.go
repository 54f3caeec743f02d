package lifecycle

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/podtest"
)

// notReadySince returns a change by which the container of a pod runs since one time, and is not ready since another.
func notReadySince(start, since int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(podtest.At(since)),
		}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(podtest.At(start))},
		}}}
	}
}

// TestStalledRanks checks which ranks the readiness probe reports, and when.
func TestStalledRanks(t *testing.T) {
	rules := gang.StallRules{File: "/f", Timeout: 100 * time.Second, Action: gang.StallReport}
	deleted := func(p *corev1.Pod) { notReadySince(5, 200)(p); podtest.Deleted(201)(p) }
	otherNotReady := func(p *corev1.Pod) {
		notReadySince(5, 200)(p)
		other := p.Status.ContainerStatuses[0]
		p.Status.ContainerStatuses[0].Ready, other.Name = true, "other"
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, other)
	}
	for name, c := range map[string]struct {
		hasNoProbe bool
		pods       []func(*corev1.Pod)
		want       []int32
		at         int // when the ranks are reported
	}{
		"ranks stall within one period": {
			pods: []func(*corev1.Pod){notReadySince(5, 208), notReadySince(5, 200)}, want: []int32{3, 4}, at: 212,
		},
		"a rank is ready":                 {pods: []func(*corev1.Pod){nil}},
		"a container starts":              {pods: []func(*corev1.Pod){notReadySince(5, 1)}},
		"a container restarts in its pod": {pods: []func(*corev1.Pod){notReadySince(201, 200)}},
		"a pod is deleted":                {pods: []func(*corev1.Pod){deleted}},
		"the probe belongs to the user":   {hasNoProbe: true, pods: []func(*corev1.Pod){notReadySince(5, 200)}},
		"the probe of the user fails in another training container": {pods: []func(*corev1.Pod){otherNotReady}},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{Gang: gang.Gang{StallRules: rules, RankOffset: 3}}
			if !c.hasNoProbe {
				w.ProbedContainers = []string{"trainer"}
			}
			for i, change := range c.pods {
				w.Pods = append(w.Pods, podtest.RankPod(i, change))
			}
			var o Observed
			o.addStalledRanks(Evidence{Now: podtest.At(210)}, w)
			if !slices.Equal(o.Stall.Ranks, c.want) {
				t.Errorf("the ranks %v stall, want %v", o.Stall.Ranks, c.want)
			}
			if len(c.want) > 0 && (!o.Stall.ReportTime.Equal(podtest.At(c.at)) || !o.NextCheckTime.Equal(podtest.At(c.at))) {
				t.Errorf("reported at %s, next check at %s", o.Stall.ReportTime, o.NextCheckTime)
			}
		})
	}
}
