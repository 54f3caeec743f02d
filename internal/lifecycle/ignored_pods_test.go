package lifecycle

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestIgnoredPodsDoNotCount checks which failed pods a Job will count. The rules are those of its podFailurePolicy, and
// the pod exited with code 3.
func TestIgnoredPodsDoNotCount(t *testing.T) {
	ignored := batchv1.PodFailurePolicyActionIgnore
	onDisruption := func(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}}
	}
	onExit := func(operator batchv1.PodFailurePolicyOnExitCodesOperator, container *string) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: ignored, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: container, Operator: operator, Values: []int32{3},
		}}
	}
	in, notIn := batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	for name, c := range map[string]struct {
		rules     []batchv1.PodFailurePolicyRule
		disrupted bool
		want      int32
	}{
		"a Job without a policy": {disrupted: true, want: 1},
		"disruptions are ignored": {
			rules: []batchv1.PodFailurePolicyRule{onDisruption(ignored)}, disrupted: true,
		},
		"disruptions are ignored, and a program failed": {
			rules: []batchv1.PodFailurePolicyRule{onDisruption(ignored)}, want: 1,
		},
		"the exit code is ignored": {
			rules: []batchv1.PodFailurePolicyRule{onExit(in, nil)},
		},
		"all other exit codes are ignored": {
			rules: []batchv1.PodFailurePolicyRule{onExit(notIn, nil)}, want: 1,
		},
		"the exit code of a container is ignored": {
			rules: []batchv1.PodFailurePolicyRule{onExit(in, ptr.To("trainer"))},
		},
		"the exit code of another one is ignored": {
			rules: []batchv1.PodFailurePolicyRule{onExit(in, ptr.To("logs"))}, want: 1,
		},
		"the first rule that matches counts the pod": {
			rules: []batchv1.PodFailurePolicyRule{
				onDisruption(batchv1.PodFailurePolicyActionCount), onExit(in, nil),
			},
			disrupted: true, want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podtest.RankPod(1, podtest.Terminated(3, 20, false))
			podtest.Tracked(&pod)
			pod.Status.Phase = corev1.PodFailed
			if c.disrupted {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				})
			}
			job, pods := &batchv1.Job{}, []corev1.Pod{pod}
			if c.rules != nil {
				job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: c.rules}
			}
			uncounted, observed := countUncountedFailures(job, pods), countObservedFailures(job, pods, failure.Context{})
			if uncounted != c.want || observed != c.want {
				t.Errorf("%d uncounted and %d observed failures, want %d", uncounted, observed, c.want)
			}
		})
	}
}
