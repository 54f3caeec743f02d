package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
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

// TestFirstCauseWhileStopping: rank 0 is known to have lost another, and its gang is stopped
// within the second in which that one fell, whose end is reported then.
func TestFirstCauseWhileStopping(t *testing.T) {
	job := admit(t, &batchv1.Job{ObjectMeta: meta("train", "pytorch", "worker", ""), Spec: one()}).(*batchv1.Job)
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	pod := *podOf(job, 1)
	pod.CreationTimestamp = metav1.NewTime(at.Add(-time.Minute))
	pod.Labels[gang.LabelAttempt] = "0"
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(at.Add(30*time.Second))), ptr.To[int64](30)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: at}}}}
	lost := &gang.Fall{Rank: 0, Container: "trainer", ExitCode: 1, Peer: true, At: at.Time}
	m := member{Workload: gang.Workload{Job: job}, result: &injectors.Result{}}
	for name, c := range map[string]struct {
		state gang.State
		want  int32
	}{
		"restarting": {gang.State{Phase: gang.Restarting, Attempt: 1, Since: at.Time, Fell: at.Time, Cause: lost}, 1},
		"failed":     {gang.State{Phase: gang.Failed, Since: at.Time, Cause: lost}, 1},
		"succeeded":  {gang.State{Phase: gang.Succeeded, Since: at.Time, Cause: lost}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &party{look: &look{}, members: []member{m}, roll: gang.Roll{{Here: true}}}
			pods := []corev1.Pod{pod}
			got := gang.Earlier(c.state.Cause, gang.FirstFall(pods, 0, p.watch(&m, pods, c.state)))
			if got.Rank != c.want {
				t.Errorf("the first cause is %+v", got)
			}
		})
	}
}
