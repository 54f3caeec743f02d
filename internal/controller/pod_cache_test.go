package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// newLargePod returns a pod of a large gang as the API server returns it.
func newLargePod(index int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprintf("train-%d-abcde", index),
			UID: "12345678-1234-1234-1234-123456789012", ResourceVersion: "123456",
			Labels: map[string]string{
				gang.LabelGang:                       "train",
				gang.LabelRole:                       "worker",
				gang.LabelFramework:                  "pytorch",
				gang.LabelAttempt:                    "0",
				batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index),
				batchv1.ControllerUidLabel:           "12345678-1234-1234-1234-123456789012",
				"batch.kubernetes.io/job-name":       "train",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1",
				Kind:       "Job",
				Name:       "train",
				UID:        "12345678-1234-1234-1234-123456789012",
				Controller: ptr.To(true),
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager:  "kubelet",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":"` + strings.Repeat("x", 3000) + `"}`),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:   "node-a",
			Containers: []corev1.Container{{Name: "trainer", Image: "registry.example.com/team/train:1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "198.18.0.1", HostIP: "198.18.0.2",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{
					Type:   corev1.ContainersReady,
					Status: corev1.ConditionTrue,
				},
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name:        "trainer",
					Image:       "registry.example.com/team/train:1",
					ImageID:     "sha256:0123456789",
					ContainerID: "containerd://0123456789",
					State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
					Ready:       true,
				},
			},
		},
	}
	p.Spec.Containers[0].Env = podtest.NewVariables(40)
	return p
}

// TestTrimPod checks that a trimmed pod contains what the reconciler reads.
func TestTrimPod(t *testing.T) {
	pod := newLargePod(3)
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode:   3,
		Reason:     "Error",
		Message:    "last words",
		FinishedAt: metav1.NewTime(testStartTime),
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(testStartTime)), ptr.To[int64](30)
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	got := trimPod(pod)
	if after, err := json.Marshal(pod); err != nil || string(after) != string(before) {
		t.Error("trimPod changed its argument")
	}
	if want := failure.First(
		[]corev1.Pod{*pod},
		0,
		failure.Context{},
	); *failure.First([]corev1.Pod{*got}, 0, failure.Context{}) != *want {
		t.Errorf("the failure of the trimmed pod differs from %v", want)
	}
	running := newLargePod(4)
	running.Status.Conditions, running.Status.ContainerStatuses[0].Ready = nil, false
	wantState, wantReason := lifecycle.DescribeRank(running, nil)
	gotState, gotReason := lifecycle.DescribeRank(trimPod(running), nil)
	if gotState != wantState || gotReason != wantReason || wantReason != "container trainer is running but not ready" {
		t.Errorf("the trimmed pod is %s: %s, want %s: %s", gotState, gotReason, wantState, wantReason)
	}
	lost := newLargePod(5)
	lost.Status.Conditions[0].Status = corev1.ConditionFalse
	lost.Status.Conditions[0].LastTransitionTime = metav1.NewTime(testStartTime)
	if !failure.IsOnLostNode(trimPod(lost)) {
		t.Error("the trimmed pod does not show that its node is lost")
	}
	lost.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/checked"}}
	if failure.IsOnLostNode(trimPod(lost)) {
		t.Error("the trimmed pod lost its readiness gates")
	}
	if gang.PodIndex(got) != 3 || got.Spec.NodeName != "node-a" ||
		!got.DeletionTimestamp.Equal(pod.DeletionTimestamp) || len(podOwnerKeys(got)) != 1 {
		t.Errorf("fields are missing: %+v", got)
	}
	if got.Spec.Containers != nil || got.ManagedFields != nil || got.Status.PodIP != "" {
		t.Error("unused fields remain")
	}
	if tombstone, err := CompactPod("deleted"); err != nil || tombstone != "deleted" {
		t.Errorf("object of another type became %v, %v", tombstone, err)
	}
}

// TestTrimReadyPod checks that a ready pod keeps its container statuses only if a container has exited, and
// that the state of its rank stays the same.
func TestTrimReadyPod(t *testing.T) {
	exited := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}
	tests := map[string]struct {
		change       func(*corev1.Pod)
		keepStatuses bool
	}{
		"no container has exited": {change: func(*corev1.Pod) {}},
		"an init container has succeeded": {change: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", State: exited}}
		}},
		"a container has restarted": {keepStatuses: true, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState = exited
		}},
		"a container has exited": {keepStatuses: true, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = exited
		}},
		"a device is unhealthy": {keepStatuses: true, change: func(p *corev1.Pod) {
			podtest.SetDeviceHealth(&p.Status.ContainerStatuses[0], corev1.ResourceHealthStatusUnhealthy)
		}},
		"the pod is being deleted": {keepStatuses: true, change: func(p *corev1.Pod) {
			p.DeletionTimestamp = ptr.To(metav1.NewTime(testStartTime))
		}},
		"the pod is not ready": {keepStatuses: true, change: func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := newLargePod(3)
			tt.change(pod)
			got := trimPod(pod)
			if hasStatuses := len(got.Status.ContainerStatuses) > 0; hasStatuses != tt.keepStatuses {
				t.Errorf("the trimmed pod has container statuses: %t, want %t", hasStatuses, tt.keepStatuses)
			}
			if failure.HasUnhealthyDevice(got, nil) != failure.HasUnhealthyDevice(pod, nil) {
				t.Error("the health of the devices differs")
			}
			wantState, wantReason := lifecycle.DescribeRank(pod, nil)
			if state, reason := lifecycle.DescribeRank(got, nil); state != wantState || reason != wantReason {
				t.Errorf("the trimmed pod is %s: %s, want %s: %s", state, reason, wantState, wantReason)
			}
		})
	}
}
