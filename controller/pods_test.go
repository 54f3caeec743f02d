package controller

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// fatPod is a rank's pod as an API server shows it, with the variables of a large gang.
func fatPod(index int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprintf("train-%d-abcde", index), UID: "12345678-1234-1234-1234-123456789012", ResourceVersion: "123456",
			Labels: map[string]string{gang.LabelGang: "train", gang.LabelRole: "worker", gang.LabelFramework: "pytorch", gang.LabelAttempt: "0",
				batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index), batchv1.ControllerUidLabel: "12345678-1234-1234-1234-123456789012", "batch.kubernetes.io/job-name": "train"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "12345678-1234-1234-1234-123456789012", Controller: ptr.To(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":"` + strings.Repeat("x", 3000) + `"}`)}},
		},
		Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "trainer", Image: "registry.example.com/team/train:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "198.18.0.1", HostIP: "198.18.0.2",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", Image: "registry.example.com/team/train:1", ImageID: "sha256:0123456789", ContainerID: "containerd://0123456789",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Ready: true}},
		},
	}
	for i := range 40 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: "some value of ordinary length"})
	}
	return p
}

// TestStrip: what the reconciler reads of a pod is there when the rest is gone.
func TestStrip(t *testing.T) {
	pod := fatPod(3)
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "last words", FinishedAt: metav1.NewTime(began)}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(began)), ptr.To[int64](30)
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Strip(pod)
	if err != nil {
		t.Fatal(err)
	}
	got := o.(*corev1.Pod)
	if after, err := json.Marshal(pod); err != nil || string(after) != string(before) {
		t.Error("the pod that came in was changed")
	}
	if want := gang.FirstFall([]corev1.Pod{*pod}, 0, gang.Watch{}); *gang.FirstFall([]corev1.Pod{*got}, 0, gang.Watch{}) != *want {
		t.Errorf("the fall of the stripped pod is another than %v", want)
	}
	if gang.IndexOf(got) != 3 || got.Spec.NodeName != "node-a" || !got.DeletionTimestamp.Equal(pod.DeletionTimestamp) || len(ownerOf(got)) != 1 {
		t.Errorf("lost: %+v", got)
	}
	if got.Spec.Containers != nil || got.ManagedFields != nil || got.Status.PodIP != "" {
		t.Error("kept what nobody reads")
	}
	if tombstone, err := Strip("deleted"); err != nil || tombstone != "deleted" {
		t.Errorf("what is no pod became %v, %v", tombstone, err)
	}
}

// BenchmarkStrip reports what a pod in the cache costs, as it comes and as it is kept.
func BenchmarkStrip(b *testing.B) {
	kept := func(name string, keep func(*corev1.Pod) any) {
		b.Run(name, func(b *testing.B) {
			const pods = 20_000
			for b.Loop() {
				var before, after runtime.MemStats
				all := make([]any, 0, pods)
				runtime.GC()
				runtime.ReadMemStats(&before)
				for i := range pods {
					all = append(all, keep(fatPod(i)))
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/pods, "B/pod")
				runtime.KeepAlive(all)
			}
		})
	}
	kept("whole", func(p *corev1.Pod) any { return p })
	kept("stripped", func(p *corev1.Pod) any {
		o, err := Strip(p)
		if err != nil {
			b.Fatal(err)
		}
		return o
	})
}
