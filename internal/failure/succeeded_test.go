package failure_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/failure"
)

// TestRankSucceeded checks which pods whose training container exited with code 0 are ranks that succeeded.
func TestRankSucceeded(t *testing.T) {
	byKubelet := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
	}
	byEviction := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
	}
	for name, c := range map[string]struct {
		isStatefulSetPod bool
		phase            corev1.PodPhase
		conditions       []corev1.PodCondition
		want             bool
	}{
		"Job pod succeeded": {phase: corev1.PodSucceeded, want: true},
		"Job pod failed although its containers succeeded": {phase: corev1.PodFailed},
		"StatefulSet pod restarts its container":           {isStatefulSetPod: true, phase: corev1.PodRunning, want: true},
		"StatefulSet pod whose containers never restart":   {isStatefulSetPod: true, phase: corev1.PodSucceeded, want: true},
		"kubelet failed a StatefulSet pod": {
			isStatefulSetPod: true, phase: corev1.PodFailed, conditions: []corev1.PodCondition{byKubelet},
		},
		"all containers of a StatefulSet pod exited with code 0 when its kubelet terminated it": {
			isStatefulSetPod: true, phase: corev1.PodSucceeded, conditions: []corev1.PodCondition{byKubelet},
		},
		"eviction of a StatefulSet pod is requested after its container succeeded": {
			isStatefulSetPod: true, phase: corev1.PodRunning, conditions: []corev1.PodCondition{byEviction}, want: true,
		},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{
			Phase: c.phase, Conditions: c.conditions,
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "trainer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			}},
		}}
		if c.isStatefulSetPod {
			pod.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{appsv1.PodIndexLabel: "0"}}
		}
		if got := failure.RankSucceeded(pod, []string{"trainer"}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
