package controller

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestReplacedStatefulSetPod checks that a StatefulSet restarts after a pod was deleted and replaced
// between two passes, and that a rollout does not restart it.
func TestReplacedStatefulSetPod(t *testing.T) {
	for name, c := range map[string]struct {
		rollout   bool
		wantPhase lifecycle.Phase
	}{
		"somebody deleted the pod": {wantPhase: lifecycle.Restarting},
		"a rollout":                {rollout: true, wantPhase: lifecycle.Running},
	} {
		t.Run(name, func(t *testing.T) {
			about := newObjectMeta("train", "pytorch", "", "")
			delete(about.Labels, gang.LabelRole)
			set := admitObject(t, &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](2), Template: *podTemplate.DeepCopy(),
			}}).(*appsv1.StatefulSet)
			set.Status = appsv1.StatefulSetStatus{ReadyReplicas: 2, Replicas: 2, CurrentRevision: "a", UpdateRevision: "a"}
			w := newTestCluster(t, set, newStatefulSetPod(set, 0, "a"), newStatefulSetPod(set, 1, "b"))
			req := Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"}
			w.reconcileOnce(t, req)
			if status := w.readStatefulSetStatus(t, set); status.Phase != lifecycle.Running || status.StatefulSetPods == "" {
				t.Fatalf("the gang is %s, and its pods are %q", status.Phase, status.StatefulSetPods)
			}
			if err := w.Delete(t.Context(), newStatefulSetPod(set, 1, "b")); err != nil {
				t.Fatal(err)
			}
			if err := w.Create(t.Context(), newStatefulSetPod(set, 1, "c")); err != nil {
				t.Fatal(err)
			}
			if c.rollout {
				w.setUpdateRevision(t, set, "b")
			}
			w.reconcileOnce(t, req)
			status := w.readStatefulSetStatus(t, set)
			isReplaced := status.FirstFailure != nil && status.FirstFailure.Reason == failure.ReasonPodDeleted
			if status.Phase != c.wantPhase || isReplaced == c.rollout {
				t.Errorf("the gang is %s after %v, want %s", status.Phase, status.FirstFailure, c.wantPhase)
			}
		})
	}
}

func newStatefulSetPod(set *appsv1.StatefulSet, index int, uid types.UID) *corev1.Pod {
	pod := podtest.RankPod(index, podtest.OfStatefulSet)
	pod.Namespace, pod.Name, pod.UID = set.Namespace, fmt.Sprintf("%s-%d", set.Name, index), uid
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = set.Status.UpdateRevision
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	}
	return &pod
}

func (w *testCluster) readStatefulSetStatus(t *testing.T, set *appsv1.StatefulSet) lifecycle.Status {
	t.Helper()
	var now appsv1.StatefulSet
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), &now); err != nil {
		t.Fatal(err)
	}
	return lifecycle.ReadStatus(gang.Workload{StatefulSet: &now})
}

func (w *testCluster) setUpdateRevision(t *testing.T, set *appsv1.StatefulSet, revision string) {
	t.Helper()
	var now appsv1.StatefulSet
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), &now); err != nil {
		t.Fatal(err)
	}
	now.Status.UpdateRevision = revision
	if err := w.Status().Update(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
}
