package controller

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestCleanRetired: the pods of a Job whose gang was done without it are taken away like all others.
func TestCleanRetired(t *testing.T) {
	part := func(name, role string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: meta(name, "pytorch", role, "master=1,worker=1"), Spec: one()}
		j.Annotations[gang.AnnotationCleanPods] = "all"
		return admit(t, j).(*batchv1.Job)
	}
	master, worker := part("train-master", "master"), part("train-worker", "worker")
	master.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	pod := podOf(worker, 0)
	pod.Labels[gang.LabelGang] = "train"
	w := newWorld(t, master, worker)
	w.look(t, train)
	if err := w.Create(t.Context(), pod); err != nil { // as if the manager had been killed before it came to the pods
		t.Fatal(err)
	}
	w.look(t, train)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(worker), worker); err != nil || *worker.Spec.Completions != 0 {
		t.Fatalf("the worker was not retired: %v", err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("its pod is there, with its end: %v", err)
	}
}

// TestCleanNeighbour: a StatefulSet that bears the gang's name without being a member keeps its pods.
func TestCleanNeighbour(t *testing.T) {
	set := func(name string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: meta(name, "pytorch", "worker", ""), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Template: *template.DeepCopy()}}
		s.Labels[gang.LabelGang], s.Annotations = "nightly", map[string]string{gang.AnnotationCleanPods: "all"}
		return admit(t, s).(*appsv1.StatefulSet)
	}
	of := func(s *appsv1.StatefulSet, state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-0",
				Labels:          map[string]string{gang.LabelGang: "nightly", gang.LabelRole: "worker", appsv1.PodIndexLabel: "0"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", State: state}}},
		}
	}
	done, runs := set("nightly-1"), set("nightly-2")
	neighbour := of(runs, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	w := newWorld(t, done, runs, neighbour, of(done, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}))
	for range 3 {
		w.look(t, Request{Namespace: "team", Kind: gang.StatefulSet, Name: "nightly-1"})
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(done), done); err != nil || *done.Spec.Replicas != 0 {
		t.Fatalf("the set that is done has %d replicas; %v", *done.Spec.Replicas, err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(neighbour), neighbour); err != nil {
		t.Errorf("the pod of the other set: %v", err)
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
