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
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// TestMayMeetSuccessPolicy checks when a Job may delete its other pods by its successPolicy
// before it has the condition.
func TestMayMeetSuccessPolicy(t *testing.T) {
	policy := &batchv1.Job{Spec: batchv1.JobSpec{SuccessPolicy: &batchv1.SuccessPolicy{}}}
	running := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	done := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	earlier := done
	earlier.Labels = map[string]string{gang.LabelAttempt: "0"}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		want bool
	}{
		"a pod of an earlier attempt succeeded": {job: policy, pods: []corev1.Pod{running, earlier}},
		"one pod succeeded":                     {job: policy, pods: []corev1.Pod{running, done}, want: true},
		"no pod succeeded":                      {job: policy, pods: []corev1.Pod{running}},
		"Job without a successPolicy":           {job: &batchv1.Job{}, pods: []corev1.Pod{running, done}},
		"StatefulSet":                           {pods: []corev1.Pod{running, done}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mayMeetSuccessPolicy(c.job, c.pods, 1); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestPartialReadiness checks that a gang is Starting only after a rank has waited for five minutes, and that
// time alone leads to a pass then.
func TestPartialReadiness(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	podSince := func(ready corev1.ConditionStatus, since time.Duration) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}}}
	}
	for name, c := range map[string]struct {
		pods     []corev1.Pod
		want     bool
		wantTime time.Time
	}{
		"no pod": {},
		"no pod is ready": {
			pods: []corev1.Pod{podSince(corev1.ConditionFalse, time.Hour)},
		},
		"pods have been ready for seconds": {
			pods: []corev1.Pod{
				podSince(corev1.ConditionTrue, 10*time.Second), podSince(corev1.ConditionTrue, time.Minute),
			},
			wantTime: now.Add(4 * time.Minute),
		},
		"a pod has been ready for five minutes": {
			pods: []corev1.Pod{
				podSince(corev1.ConditionTrue, 10*time.Second), podSince(corev1.ConditionTrue, 5*time.Minute),
			},
			want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, next := observePartialReadiness(c.pods, now)
			if got != c.want || !next.Equal(c.wantTime) {
				t.Errorf("got %v and the next check at %v, want %v and %v", got, next, c.want, c.wantTime)
			}
		})
	}
}

// TestScaledDownPodsAreIgnored checks that the pods of an elastic Job do not fail when its user
// scales it down.
func TestScaledDownPodsAreIgnored(t *testing.T) {
	job := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
		Spec:       singlePodJobSpec(),
	}).(*batchv1.Job)
	var pods []corev1.Pod
	for i := range 2 {
		pods = append(pods, *newJobPod(job, i))
	}
	for size, want := range map[int32]int{0: 0, 1: 1, 2: 2} {
		job.Spec.Parallelism = &size
		if got := excludeReplacedPods(member{Workload: gang.Workload{Job: job}}, pods); len(got) != want {
			t.Errorf("Job with parallelism %d: %d pods can fail, want %d", size, len(got), want)
		}
	}
}

// TestFirstFailureDuringTermination checks that a rank is the first failure if it failed in the
// second in which its gang was terminated. Rank 0 reported a lost peer before.
func TestFirstFailureDuringTermination(t *testing.T) {
	job := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
		Spec:       singlePodJobSpec(),
	}).(*batchv1.Job)
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	pod := *newJobPod(job, 1)
	pod.CreationTimestamp = metav1.NewTime(at.Add(-time.Minute))
	pod.Labels[gang.LabelAttempt] = "0"
	pod.DeletionTimestamp = ptr.To(metav1.NewTime(at.Add(30 * time.Second)))
	pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: at}}}}
	lost := &failure.Failure{Rank: 0, Container: "trainer", ExitCode: 1, LostPeer: true, Time: at.Time}
	m := member{Workload: gang.Workload{Job: job}, result: &injectors.Result{}}
	for name, c := range map[string]struct {
		state lifecycle.State
		want  int32
	}{
		"restarting gang": {
			state: lifecycle.State{
				Phase:              lifecycle.Restarting,
				Restarts:           1,
				LastTransitionTime: at.Time,
				LastRestartTime:    at.Time,
				FirstFailure:       lost,
			},
			want: 1,
		},
		"failed gang": {
			state: lifecycle.State{Phase: lifecycle.Failed, LastTransitionTime: at.Time, FirstFailure: lost},
			want:  1,
		},
		"succeeded gang": {
			state: lifecycle.State{Phase: lifecycle.Succeeded, LastTransitionTime: at.Time, FirstFailure: lost},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &observedGang{pass: &pass{}, members: []member{m}, memberStates: lifecycle.Members{{Exists: true}}}
			pods := []corev1.Pod{pod}
			got := failure.EarlierOf(c.state.FirstFailure, failure.First(pods, 0, p.failureContext(m, pods, c.state)))
			if got.Rank != c.want {
				t.Errorf("first failure: %+v", got)
			}
		})
	}
}
