package controller

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// newProbedJob returns a Job with one pod, which is ready and has the readiness probe of Rollcall.
func newProbedJob(t *testing.T) (*batchv1.Job, *corev1.Pod) {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec()}
	delete(job.Labels, gang.LabelRole)
	job.Annotations = map[string]string{
		gang.AnnotationProgressFile: "/tmp/progress", gang.AnnotationStallTimeout: "100s",
	}
	job = admitObject(t, job).(*batchv1.Job)
	start := metav1.NewTime(testStartTime)
	job.Status = batchv1.JobStatus{StartTime: &start, Active: 1, Ready: ptr.To[int32](1)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "train-0", CreationTimestamp: start,
			Labels: map[string]string{
				gang.LabelGang: "train", gang.LabelAttempt: "0", batchv1.JobCompletionIndexAnnotation: "0",
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: corev1.PodSpec{NodeName: "node-a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	return job, pod
}

// setPodReady sets the readiness of the pod as the kubelet does, with the fields that the cache keeps.
func (w *testCluster) setPodReady(t *testing.T, pod *corev1.Pod, ready bool) {
	t.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = nil
	for _, condition := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: condition, Status: status, LastTransitionTime: metav1.NewTime(w.clock.Now()), Reason: "ContainersNotReady",
		})
	}
	started := metav1.NewTime(testStartTime.Add(time.Second))
	running := &corev1.ContainerStateRunning{StartedAt: started}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "trainer", Ready: ready, State: corev1.ContainerState{Running: running},
	}}
	trimmed := trimPod(pod)
	trimmed.ResourceVersion = ""
	if err := w.Status().Update(t.Context(), trimmed); err != nil {
		t.Fatal(err)
	}
}

// TestStalledRankIsReported checks that a stalled rank is reported after one period of its probe, and until it makes
// progress. The gang stays Running.
func TestStalledRankIsReported(t *testing.T) {
	job, pod := newProbedJob(t)
	w, request := newTestCluster(t, job, pod), Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	check := func(want gang.Reason, message string) time.Duration {
		t.Helper()
		delay := w.reconcileOnce(t, request)
		var now batchv1.Job
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
			t.Fatal(err)
		}
		s := lifecycle.ReadStatus(gang.Workload{Job: &now})
		if s.Reason != want || s.Message != message || s.Phase != lifecycle.Running || s.FirstFailure != nil {
			t.Errorf("after %s: %+v, want %s: %s", w.clock.Since(testStartTime), s, want, message)
		}
		return delay
	}
	w.setPodReady(t, pod, true)
	w.reconcileOnce(t, request) // creates the Service
	check(gang.ReasonGangRunning, "All 1 ranks have been ready")
	w.clock.SetTime(testStartTime.Add(200 * time.Second))
	w.setPodReady(t, pod, false)
	if delay := check(gang.ReasonGangRunning, "All 1 ranks have been ready"); delay != 12*time.Second {
		t.Errorf("the next pass is due in %s", delay)
	}
	w.clock.SetTime(testStartTime.Add(212 * time.Second))
	check(gang.ReasonStalled, "Rank 0 did not write /tmp/progress for 1m40s")
	w.clock.SetTime(testStartTime.Add(300 * time.Second))
	check(gang.ReasonStalled, "Rank 0 did not write /tmp/progress for 1m40s")
	w.setPodReady(t, pod, true)
	check(gang.ReasonGangRunning, "All 1 ranks have been ready")
}

// TestStalledRankOfStatefulSetIsReported checks that a stalled rank is reported although its StatefulSet does not count
// it as ready, so that the gang is not Running.
func TestStalledRankOfStatefulSetIsReported(t *testing.T) {
	about := newObjectMeta("train", "pytorch", "", "")
	delete(about.Labels, gang.LabelRole)
	about.Annotations = map[string]string{
		gang.AnnotationProgressFile: "/tmp/progress", gang.AnnotationStallTimeout: "100s",
	}
	set := admitObject(t, &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](1), Template: *podTemplate.DeepCopy(),
	}}).(*appsv1.StatefulSet)
	pod := newStatefulSetPod(set, 0, "a")
	w, request := newTestCluster(t, set, pod), Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"}
	setReady := func(ready int32) {
		t.Helper()
		w.setPodReady(t, pod, ready > 0)
		var now appsv1.StatefulSet
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), &now); err != nil {
			t.Fatal(err)
		}
		now.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: ready}
		if err := w.Status().Update(t.Context(), &now); err != nil {
			t.Fatal(err)
		}
		w.reconcileOnce(t, request)
	}
	check := func(phase lifecycle.Phase, reason gang.Reason) {
		t.Helper()
		if s := w.readStatefulSetStatus(t, set); s.Phase != phase || s.Reason != reason {
			t.Errorf("the gang is %s, %s: %s; want %s, %s", s.Phase, s.Reason, s.Message, phase, reason)
		}
	}
	setReady(1)
	check(lifecycle.Running, gang.ReasonGangRunning)
	w.clock.SetTime(testStartTime.Add(200 * time.Second))
	setReady(0)
	check(lifecycle.Pending, gang.ReasonGangPending)
	w.clock.SetTime(testStartTime.Add(212 * time.Second))
	w.reconcileOnce(t, request)
	check(lifecycle.Pending, gang.ReasonStalled)
	setReady(1)
	check(lifecycle.Running, gang.ReasonGangRunning)
}

// TestFlappingStallIsBounded checks that a rank that stalls again and again costs two writes in ten minutes, and one
// Event in each attempt about the stall and one about its end.
func TestFlappingStallIsBounded(t *testing.T) {
	job, pod := newProbedJob(t)
	w, request := newTestCluster(t, job, pod), Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.setPodReady(t, pod, true)
	w.reconcileOnce(t, request)
	w.reconcileOnce(t, request)
	writes, version := 0, ""
	now := testStartTime.Add(3 * time.Minute)
	for range 60 { // half a minute of a stall, half a minute of progress
		isStalled := now.Second() == 0
		w.clock.SetTime(now)
		w.setPodReady(t, pod, !isStalled)
		w.clock.SetTime(now.Add(20 * time.Second))
		w.reconcileOnce(t, request)
		now = now.Add(30 * time.Second)
		var current batchv1.Job
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &current); err != nil {
			t.Fatal(err)
		}
		if current.ResourceVersion != version {
			writes, version = writes+1, current.ResourceVersion
		}
	}
	if writes != 6 {
		t.Errorf("%d writes in 30 minutes", writes)
	}
	recorded := drainEvents(w.Recorder.(*events.FakeRecorder))
	if len(recorded) != 2 || !strings.Contains(recorded[0], "Stalled") || !strings.Contains(recorded[1], "GangRunning") {
		t.Errorf("the Events are %q", recorded)
	}
}
