package failure_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
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
		runsAgain        bool
		message          string
		want             bool
	}{
		"Job pod succeeded": {phase: corev1.PodSucceeded, want: true},
		"Job pod failed although its containers succeeded": {phase: corev1.PodFailed},
		"StatefulSet pod restarts its container":           {isStatefulSetPod: true, phase: corev1.PodRunning, want: true},
		"StatefulSet pod runs its container again": {
			isStatefulSetPod: true, phase: corev1.PodRunning, runsAgain: true, want: true,
		},
		"Job pod runs its container again":        {phase: corev1.PodRunning, runsAgain: true},
		"the program of a stalled Job pod exited": {phase: corev1.PodSucceeded, message: stallReport(-1)},
		"a Job pod succeeded long after a stall": {
			phase: corev1.PodSucceeded, message: stallReport(-3600), want: true,
		},
		"StatefulSet pod succeeded after a stall":        {isStatefulSetPod: true, message: stallReport(-3600), want: true},
		"a stalled StatefulSet pod exited at once":       {isStatefulSetPod: true, message: stallReport(-1)},
		"StatefulSet pod whose containers never restart": {isStatefulSetPod: true, phase: corev1.PodSucceeded, want: true},
		"kubelet failed a StatefulSet pod": {
			isStatefulSetPod: true, phase: corev1.PodFailed, conditions: []corev1.PodCondition{byKubelet},
		},
		"all containers of a Job pod exited with code 0 when its kubelet terminated it": {
			phase: corev1.PodSucceeded, conditions: []corev1.PodCondition{byKubelet},
		},
		"all containers of a StatefulSet pod exited with code 0 when its kubelet terminated it": {
			isStatefulSetPod: true, phase: corev1.PodSucceeded, conditions: []corev1.PodCondition{byKubelet},
		},
		"eviction of a StatefulSet pod is requested after its container succeeded": {
			isStatefulSetPod: true, phase: corev1.PodRunning, conditions: []corev1.PodCondition{byEviction}, want: true,
		},
	} {
		exited := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			FinishedAt: metav1.NewTime(podtest.At(0)), Message: c.message,
		}}
		status := corev1.ContainerStatus{Name: "trainer", State: exited}
		if c.runsAgain {
			status.State, status.LastTerminationState = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, exited
		}
		pod := &corev1.Pod{Status: corev1.PodStatus{
			Phase: c.phase, Conditions: c.conditions, ContainerStatuses: []corev1.ContainerStatus{status},
		}}
		if c.isStatefulSetPod {
			pod.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{appsv1.PodIndexLabel: "0"}}
		}
		if got := failure.RankSucceeded(pod, []string{"trainer"}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
