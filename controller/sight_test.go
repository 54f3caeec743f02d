package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// TestSucceeds: a Job takes its other pods away by its successPolicy before it says so.
func TestSucceeds(t *testing.T) {
	policy := &batchv1.Job{Spec: batchv1.JobSpec{SuccessPolicy: &batchv1.SuccessPolicy{}}}
	running := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	done := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	for name, c := range map[string]struct {
		reason string
		job    *batchv1.Job
		pods   []corev1.Pod
		want   bool
	}{
		"one is done": {"", policy, []corev1.Pod{running, done}, true},
		"none is":     {"a pod that goes then was deleted", policy, []corev1.Pod{running}, false},
		"no policy":   {"all have to end", &batchv1.Job{}, []corev1.Pod{running, done}, false},
		"a set":       {"it has none", nil, []corev1.Pod{running, done}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := succeeds(c.job, c.pods); got != c.want {
				t.Errorf("%s: %v", c.reason, got)
			}
		})
	}
}

// TestScaledDown: the pods of an elastic Job that its user scales down go because of that.
func TestScaledDown(t *testing.T) {
	job := admit(t, &batchv1.Job{ObjectMeta: meta("train", "pytorch", "worker", ""), Spec: one()}).(*batchv1.Job)
	var pods []corev1.Pod
	for i := range 2 {
		pods = append(pods, *podOf(job, i))
	}
	for size, want := range map[int32]int{0: 0, 1: 1, 2: 2} {
		job.Spec.Parallelism = &size
		if got := current(gang.Workload{Job: job}, pods); len(got) != want {
			t.Errorf("of a Job of %d, %d pods can fall, want %d", size, len(got), want)
		}
	}
}
