package controller

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// TestClean: which pods of a gang that is done are there afterwards.
func TestClean(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		policy string
		want   int
	}{
		"running": {"a pod that has ended keeps its logs", "running", 2},
		"none":    {"", "none", 2},
		"all":     {"", "all", 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: meta("train", "pytorch", "worker", ""), Spec: one()}
			j.Annotations = map[string]string{gang.AnnotationCleanPods: c.policy}
			done := admit(t, j).(*batchv1.Job)
			done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			objects := []client.Object{done}
			for i := range 2 {
				objects = append(objects, podOf(done, i))
			}
			other := podOf(done, 9) // of another run that bears the gang's name
			other.Labels[batchv1.ControllerUidLabel], other.OwnerReferences[0].UID = "other", "other"
			w := newWorld(t, append(objects, other)...)
			for range 3 {
				w.look(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			}
			var pods corev1.PodList
			if err := w.List(t.Context(), &pods); err != nil {
				t.Fatal(err)
			}
			if got := len(pods.Items) - 1; got != c.want {
				t.Errorf("%s: %d pods are left, want %d", c.reason, got, c.want)
			}
		})
	}
}

func podOf(job *batchv1.Job, index int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: fmt.Sprintf("%s-%d", job.Name, index),
			Labels:          map[string]string{gang.LabelGang: job.Name, gang.LabelRole: "worker", batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index), batchv1.ControllerUidLabel: string(job.UID)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
}
