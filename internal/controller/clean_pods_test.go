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

// TestCleanUpPods checks which pods of a finished gang remain.
func TestCleanUpPods(t *testing.T) {
	for name, c := range map[string]struct {
		policy    string
		condition batchv1.JobConditionType
		want      int
	}{
		"policy running keeps exited pods": {policy: "running", condition: batchv1.JobComplete, want: 2},
		"policy none keeps all pods":       {policy: "none", condition: batchv1.JobComplete, want: 2},
		"policy all deletes all pods":      {policy: "all", condition: batchv1.JobComplete},
		"pods of a Job that waits for its last pods stay": {
			policy: "all", condition: batchv1.JobSuccessCriteriaMet, want: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec()}
			j.Annotations = map[string]string{gang.AnnotationCleanPodPolicy: c.policy}
			done := admitObject(t, j).(*batchv1.Job)
			done.Status.Conditions = []batchv1.JobCondition{{Type: c.condition, Status: corev1.ConditionTrue}}
			objects := []client.Object{done}
			for i := range 2 {
				objects = append(objects, newJobPod(done, i))
			}
			other := newJobPod(done, 9) // a pod of another run with the same gang name
			other.Labels[batchv1.ControllerUidLabel], other.OwnerReferences[0].UID = "other", "other"
			w := newTestCluster(t, append(objects, other)...)
			for range 3 {
				w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			}
			var pods corev1.PodList
			if err := w.List(t.Context(), &pods); err != nil {
				t.Fatal(err)
			}
			if got := len(pods.Items) - 1; got != c.want {
				t.Errorf("%d pods remain, want %d", got, c.want)
			}
		})
	}
}

// TestCleanUpPodsOfCompletedJob checks that the pods of a Job that Rollcall completed are
// deleted.
func TestCleanUpPodsOfCompletedJob(t *testing.T) {
	newMember := func(name, role string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: newObjectMeta(name, "pytorch", role, "master=1,worker=1"), Spec: singlePodJobSpec()}
		j.Annotations[gang.AnnotationCleanPodPolicy] = "all"
		return admitObject(t, j).(*batchv1.Job)
	}
	master, worker := newMember("train-master", "master"), newMember("train-worker", "worker")
	master.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	pod := newJobPod(worker, 0)
	pod.Labels[gang.LabelGang] = "train"
	w := newTestCluster(t, master, worker)
	w.reconcileOnce(t, trainRequest)
	if err := w.Create(t.Context(), pod); err != nil { // as if the manager crashed before it deleted the pod
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainRequest)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(worker), worker); err != nil || *worker.Spec.Completions != 0 {
		t.Fatalf("the worker was not completed: %v", err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the pod was not deleted: %v", err)
	}
}

// TestCleanUpPodsKeepsNonMembers checks that a StatefulSet that only has the name of the gang
// keeps its pods.
func TestCleanUpPodsKeepsNonMembers(t *testing.T) {
	set := func(name string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{
			ObjectMeta: newObjectMeta(name, "pytorch", "worker", ""),
			Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Template: *podTemplate.DeepCopy()},
		}
		s.Labels[gang.LabelGang], s.Annotations = "nightly", map[string]string{gang.AnnotationCleanPodPolicy: "all"}
		return admitObject(t, s).(*appsv1.StatefulSet)
	}
	of := func(s *appsv1.StatefulSet, state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-0",
				Labels: map[string]string{gang.LabelGang: "nightly", gang.LabelRole: "worker", appsv1.PodIndexLabel: "0"},
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
				}},
			Status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", State: state}},
			},
		}
	}
	done, runs := set("nightly-1"), set("nightly-2")
	otherPod := of(runs, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	w := newTestCluster(t, done, runs, otherPod, of(done, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{},
	}))
	for range 3 {
		w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.StatefulSet, Name: "nightly-1"})
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(done), done); err != nil || *done.Spec.Replicas != 0 {
		t.Fatalf("the finished StatefulSet has %d replicas; %v", *done.Spec.Replicas, err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(otherPod), otherPod); err != nil {
		t.Errorf("the pod of the other StatefulSet: %v", err)
	}
}

func newJobPod(job *batchv1.Job, index int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: fmt.Sprintf("%s-%d", job.Name, index),
			Labels: map[string]string{
				gang.LabelGang:                       job.Name,
				gang.LabelRole:                       "worker",
				batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index),
				batchv1.ControllerUidLabel:           string(job.UID),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1",
				Kind:       "Job",
				Name:       job.Name,
				UID:        job.UID,
				Controller: ptr.To(true),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
}
