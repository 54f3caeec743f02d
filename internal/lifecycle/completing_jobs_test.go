package lifecycle

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/podtest"
)

// TestMayMeetSuccessPolicy checks when a Job may delete its other pods by its successPolicy
// before it has the condition.
func TestMayMeetSuccessPolicy(t *testing.T) {
	policy := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
	running := podtest.RankPod(1, nil)
	done := podtest.Terminated(0, 10, false)
	earlier := func(pod *corev1.Pod) {
		done(pod)
		pod.Labels[gang.LabelAttempt] = "0"
	}
	deleted := func(pod *corev1.Pod) {
		podtest.Deleted(5)(pod)
		done(pod)
	}
	for name, c := range map[string]struct {
		policy  *batchv1.SuccessPolicy
		counted string
		pod     corev1.Pod
		want    bool
	}{
		"the pod of the rule succeeded":        {policy: policy, pod: podtest.RankPod(0, done), want: true},
		"the Job counted the pod of the rule":  {policy: policy, pod: running, counted: "0", want: true},
		"another pod succeeded":                {policy: policy, pod: podtest.RankPod(1, done)},
		"the pod is of an earlier attempt":     {policy: policy, pod: podtest.RankPod(0, earlier)},
		"the pod was deleted before it exited": {policy: policy, pod: podtest.RankPod(0, deleted)},
		"no pod succeeded":                     {policy: policy, pod: running},
		"the Job is without a successPolicy":   {pod: podtest.RankPod(0, done)},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{
				Spec:   batchv1.JobSpec{SuccessPolicy: c.policy, Parallelism: ptr.To[int32](2)},
				Status: batchv1.JobStatus{CompletedIndexes: c.counted},
			}
			w := WorkloadEvidence{Workload: gang.Workload{Job: job}, Pods: []corev1.Pod{running, c.pod}}
			if got := w.mayMeetSuccessPolicy(1); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if (WorkloadEvidence{Pods: []corev1.Pod{running}}).mayMeetSuccessPolicy(1) {
		t.Error("a StatefulSet may meet a successPolicy")
	}
}

// TestCompletingJob checks which pods complete a Job of three ranks.
func TestCompletingJob(t *testing.T) {
	succeeded := func(index int, changes ...func(*corev1.Pod)) corev1.Pod {
		pod := podtest.RankPod(index, podtest.Terminated(0, 10, false))
		pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
		for _, change := range changes {
			change(&pod)
		}
		return pod
	}
	untracked := func(pod *corev1.Pod) { pod.Finalizers = nil }
	withSidecar := func(pod *corev1.Pod) { // a native sidecar ends after the containers
		pod.Status.Phase = corev1.PodRunning
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}
	}
	evicted := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
		}}
	}
	ofAttempt := func(attempt string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels[gang.LabelAttempt] = attempt }
	}
	firstIndex := batchv1.SuccessPolicyRule{SucceededIndexes: ptr.To("0")}
	anyTwo := batchv1.SuccessPolicyRule{SucceededCount: ptr.To[int32](2)}
	oneOfLast := batchv1.SuccessPolicyRule{SucceededIndexes: ptr.To("1-2"), SucceededCount: ptr.To[int32](1)}
	for name, c := range map[string]struct {
		rules     []batchv1.SuccessPolicyRule
		completed string
		pods      []corev1.Pod
		want      bool
	}{
		"no pod succeeded":      {pods: []corev1.Pod{podtest.RankPod(0, nil)}},
		"all indexes succeeded": {pods: []corev1.Pod{succeeded(0), succeeded(1), succeeded(2)}, want: true},
		"all indexes succeeded, and a sidecar still runs": {
			pods: []corev1.Pod{succeeded(0, withSidecar), succeeded(1), succeeded(2)}, want: true,
		},
		"first index of three":   {pods: []corev1.Pod{succeeded(0)}},
		"same index twice":       {pods: []corev1.Pod{succeeded(0), succeeded(0), succeeded(1)}},
		"index beyond the ranks": {pods: []corev1.Pod{succeeded(0), succeeded(1), succeeded(3)}},
		"the Job has counted one pod": {
			completed: "1", pods: []corev1.Pod{succeeded(0), succeeded(1, untracked), succeeded(2)}, want: true,
		},
		"completed index without a pod": {completed: "1", pods: []corev1.Pod{succeeded(0), succeeded(2)}},
		"a reset leaves a pod that the Job does not count": {
			pods: []corev1.Pod{succeeded(0), succeeded(1, untracked), succeeded(2)},
		},
		"first index meets the successPolicy": {
			rules: []batchv1.SuccessPolicyRule{firstIndex}, pods: []corev1.Pod{succeeded(0)}, want: true,
		},
		"second index does not meet the successPolicy": {
			rules: []batchv1.SuccessPolicyRule{firstIndex}, pods: []corev1.Pod{succeeded(1)},
		},
		"count meets the successPolicy": {
			rules: []batchv1.SuccessPolicyRule{anyTwo}, pods: []corev1.Pod{succeeded(0), succeeded(2)}, want: true,
		},
		"one pod is less than the count": {
			rules: []batchv1.SuccessPolicyRule{anyTwo}, pods: []corev1.Pod{succeeded(2)},
		},
		"second rule meets the successPolicy": {
			rules: []batchv1.SuccessPolicyRule{firstIndex, oneOfLast}, pods: []corev1.Pod{succeeded(2)}, want: true,
		},
		"deleted pod": {
			rules: []batchv1.SuccessPolicyRule{firstIndex}, pods: []corev1.Pod{succeeded(0, podtest.Drained)},
		},
		"evicted pod": {
			rules: []batchv1.SuccessPolicyRule{firstIndex}, pods: []corev1.Pod{succeeded(0, evicted)},
		},
		"pod of an earlier attempt": {
			rules: []batchv1.SuccessPolicyRule{firstIndex}, pods: []corev1.Pod{succeeded(0, ofAttempt("0"))},
		},
		"pod without attempt counts": {
			rules: []batchv1.SuccessPolicyRule{firstIndex}, pods: []corev1.Pod{succeeded(0, ofAttempt(""))}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](3), Completions: ptr.To[int32](3)}}
			job.Status.CompletedIndexes = c.completed
			if c.rules != nil {
				job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: c.rules}
			}
			if got := isCompleting(gang.Workload{Job: job}, c.pods, 1); got != c.want {
				t.Errorf("completing is %v, want %v", got, c.want)
			}
		})
	}
}
