package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/podtest"
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

// TestListRankUIDs checks that only a pod that has not ended is the pod of a rank. The cache of a new manager may
// contain the pod that a StatefulSet has replaced already.
func TestListRankUIDs(t *testing.T) {
	for name, c := range map[string]struct {
		phase        corev1.PodPhase
		wantComplete bool
	}{
		"a running pod":  {phase: corev1.PodRunning, wantComplete: true},
		"a failed pod":   {phase: corev1.PodFailed},
		"a finished pod": {phase: corev1.PodSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := podtest.RankPod(0, podtest.OfStatefulSet), podtest.RankPod(1, podtest.OfStatefulSet)
			first.UID, second.UID, second.Status.Phase = "a", "b", c.phase
			w := WorkloadEvidence{
				Workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{
					Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)},
				}},
				Pods: []corev1.Pod{first, second},
			}
			if _, complete := w.listRankUIDs(); complete != c.wantComplete {
				t.Errorf("all ranks have a pod: %v, want %v", complete, c.wantComplete)
			}
		})
	}
}
