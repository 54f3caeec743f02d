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

// TestExcludePodsOfRollout checks which deleted pods of a StatefulSet are failures, and that an evicted pod always is
// one. The revisions of the status stay different with a partition, and with OnDelete in earlier versions.
func TestExcludePodsOfRollout(t *testing.T) {
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	partition := appsv1.StatefulSetUpdateStrategy{
		Type:          appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)},
	}
	for name, c := range map[string]struct {
		strategy   appsv1.StatefulSetUpdateStrategy
		current    string
		revisions  []string
		unobserved bool
		// wantFailed is true if the first pod, which somebody deleted, is a failure.
		wantFailed, wantRollingOut bool
	}{
		"no rollout": {current: "b", revisions: []string{"b", "b"}, wantFailed: true},
		"the controller has not observed the spec": {
			current: "b", revisions: []string{"b", "b"}, unobserved: true, wantRollingOut: true,
		},
		"a complete rollout, and a late cache with a pod that it replaced": {
			current: "b", revisions: []string{"a", "b"}, wantRollingOut: true,
		},
		"a rolling update": {current: "a", revisions: []string{"b", "a"}, wantRollingOut: true},
		"OnDelete, and an old pod": {
			strategy: onDelete, current: "a", revisions: []string{"a", "b"}, wantRollingOut: true,
		},
		"OnDelete, and a new pod of two revisions": {
			strategy: onDelete, current: "a", revisions: []string{"b", "a"}, wantFailed: true, wantRollingOut: true,
		},
		"OnDelete, and all pods were replaced": {
			strategy: onDelete, current: "a", revisions: []string{"b", "b"}, wantFailed: true,
		},
		"a partition that keeps the old pod": {
			strategy: partition, current: "a", revisions: []string{"a", "b"}, wantFailed: true,
		},
		"a partition that keeps a pod of a rollout that was taken back": {
			strategy: partition, current: "b", revisions: []string{"a", "b"}, wantFailed: true,
		},
		"a partition, and a pod above it is old": {
			strategy: partition, current: "a", revisions: []string{"a", "a"}, wantFailed: true, wantRollingOut: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{
				Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), UpdateStrategy: c.strategy},
				Status: appsv1.StatefulSetStatus{CurrentRevision: c.current, UpdateRevision: "b"},
			}
			if c.unobserved {
				set.Generation = 1
			}
			evicted := podtest.RankPod(2, podtest.Deleted(10))
			evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
			})
			pods := []corev1.Pod{podtest.RankPod(0, podtest.Deleted(10)), podtest.RankPod(1, nil), evicted}
			for i, revision := range append(c.revisions, "b") {
				pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = revision
			}
			w := WorkloadEvidence{
				Workload: gang.Workload{StatefulSet: set}, InjectedReplicas: ptr.To[int32](3), Pods: pods,
			}
			want := []string{"train-1-x", "train-2-x"}
			if c.wantFailed {
				want = append([]string{"train-0-x"}, want...)
			}
			var got []string
			for _, pod := range w.excludeReplacedPods(nil) {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if isRollingOut := w.isRollingOut(); isRollingOut != c.wantRollingOut {
				t.Errorf("rolling out: %t, want %t", isRollingOut, c.wantRollingOut)
			}
		})
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
