package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// confirmed is a change of a deleted pod whose containers are gone, and that only the finalizer of the
// Job controller keeps.
func confirmed(p *corev1.Pod) {
	drained(p)
	p.DeletionGracePeriodSeconds = ptr.To[int64](0)
}

// TestObserveTermination checks which pods the next attempt waits for.
func TestObserveTermination(t *testing.T) {
	now := podtest.At(20)
	for name, c := range map[string]struct {
		pods           []corev1.Pod
		terminating    int32 // as the Job counts them
		wantTerminated bool
		wantTimeout    time.Time
	}{
		"a pod runs": {pods: []corev1.Pod{podtest.RankPod(0, nil)}},
		"the grace period of a deleted pod has not ended": {
			pods: []corev1.Pod{podtest.RankPod(0, drained)}, terminating: 1,
			wantTimeout: podtest.At(10 + 30).Add(attempt.TerminationTimeout),
		},
		"only a finalizer keeps a deleted pod": {
			pods: []corev1.Pod{podtest.RankPod(0, confirmed)}, terminating: 1, wantTerminated: true,
		},
		"the Job counts a pod that the cache does not contain": {terminating: 1},
		"the grace period of one of two deleted pods has not ended": {
			pods: []corev1.Pod{podtest.RankPod(0, confirmed), podtest.RankPod(1, drained)}, terminating: 2,
			wantTimeout: podtest.At(10 + 30).Add(attempt.TerminationTimeout),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := observeTermination(lifecycle.Observation{TerminatingPods: c.terminating}, c.pods, now, true)
			if got.allTerminated != c.wantTerminated || !got.nextTimeout.Equal(c.wantTimeout) {
				t.Errorf("terminated %v, timeout %s; want %v, %s",
					got.allTerminated, got.nextTimeout, c.wantTerminated, c.wantTimeout)
			}
		})
	}
}

// TestConfirmedDeletionIsNotStuck checks that a pod that nobody waits for is not reported as stuck.
func TestConfirmedDeletionIsNotStuck(t *testing.T) {
	pods := []corev1.Pod{podtest.RankPod(0, confirmed)}
	late := podtest.At(10 + 30).Add(stuckPodGracePeriod)
	m := member{Workload: gang.Workload{Job: &batchv1.Job{}}}
	if stuck, _ := m.findStuckPod(pods, lifecycle.Restarting, late); stuck != nil {
		t.Errorf("pod %s is stuck", stuck.Name)
	}
	m.Job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	if stuck, _ := m.findStuckPod(pods, lifecycle.Restarting, late); stuck == nil {
		t.Error("no pod is stuck, although the Job waits for the deletion of the pod")
	}
}
