package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/podtest"
)

// TestExcludePodsOfRollout checks which deleted pods of a StatefulSet are failures while its revisions
// differ. With the strategy OnDelete or a partition, they differ until the user has replaced all pods.
func TestExcludePodsOfRollout(t *testing.T) {
	set := &appsv1.StatefulSet{
		Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3)},
		Status: appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b"},
	}
	replaced, evicted := podtest.RankPod(0, podtest.Deleted(10)), podtest.RankPod(1, podtest.Deleted(10))
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
	})
	w := WorkloadEvidence{
		Workload: gang.Workload{StatefulSet: set}, InjectedReplicas: ptr.To[int32](3),
		Pods: []corev1.Pod{replaced, evicted, podtest.RankPod(2, nil)},
	}
	var got []string
	for _, pod := range w.excludeReplacedPods() {
		got = append(got, pod.Name)
	}
	if diff := cmp.Diff([]string{"train-1-x", "train-2-x"}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
