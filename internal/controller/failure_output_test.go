package controller

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
)

// programOutput is the termination message of a failed container.
const programOutput = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer, token=confidential"

// newFailedPod returns a pod of a Job whose container printed programOutput and failed.
func newFailedPod(job *batchv1.Job) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "train-0", CreationTimestamp: metav1.NewTime(testStartTime),
			Labels: map[string]string{gang.LabelGang: "train", gang.LabelAttempt: "0"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "trainer", RestartCount: 1,
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 7, Reason: "Error", Message: programOutput,
					FinishedAt: metav1.NewTime(testStartTime.Add(time.Minute)),
				}},
			}},
		},
	}
}

// TestFailureOutput checks that the output of a failed program is part of annotation, conditions and Events
// unless an administrator or the user of the gang turned it off. The first failure stays the same.
func TestFailureOutput(t *testing.T) {
	for name, c := range map[string]struct {
		omit       bool
		annotation string
		want       bool
	}{
		"default":                          {want: true},
		"turned off for the gang":          {annotation: "false"},
		"turned off for all gangs":         {omit: true},
		"a gang cannot turn the output on": {omit: true, annotation: "true"},
	} {
		for _, maxRestarts := range []string{"0", "1"} {
			t.Run(name+", max-restarts "+maxRestarts, func(t *testing.T) {
				meta := newObjectMeta("train", "pytorch", "worker", "")
				meta.Annotations = map[string]string{gang.AnnotationMaxRestarts: maxRestarts}
				if c.annotation != "" {
					meta.Annotations[gang.AnnotationFailureOutput] = c.annotation
				}
				job := admitObject(t, &batchv1.Job{ObjectMeta: meta, Spec: singlePodJobSpec()}).(*batchv1.Job)
				w := newTestCluster(t, job, newFailedPod(job))
				recorder := events.NewFakeRecorder(100)
				w.Recorder = recorder
				w.Engine = injectors.NewEngine(injectors.Builtin(), gang.Config{OmitFailureOutput: c.omit})
				w.clock.SetTime(testStartTime.Add(2 * time.Minute))
				for range 3 {
					w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
				}
				var now batchv1.Job
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
					t.Fatal(err)
				}
				status := lifecycle.ReadStatus(gang.Workload{Job: &now})
				if f := status.FirstFailure; f == nil || f.ExitCode != 7 || !f.LostPeer {
					t.Fatalf("the first failure is %+v", f)
				}
				texts := map[string]string{"annotation": now.Annotations[gang.AnnotationStatus]}
				for _, condition := range now.Status.Conditions {
					texts["conditions"] += condition.Message
				}
				for len(recorder.Events) > 0 {
					texts["Events"] += <-recorder.Events
				}
				if maxRestarts != "0" {
					delete(texts, "conditions") // the condition GangFailed is the only one with the failure
				}
				for place, text := range texts {
					if strings.Contains(text, "confidential") != c.want {
						t.Errorf("the %s contain output: %t, want %t: %s", place, !c.want, c.want, text)
					}
				}
			})
		}
	}
}

// TestFailureOutputOfEarlierManager checks that a manager that omits output does not copy the output that
// another manager recorded.
func TestFailureOutputOfEarlierManager(t *testing.T) {
	job := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec(),
	}).(*batchv1.Job)
	w := newTestCluster(t, job, newFailedPod(job))
	req := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.clock.SetTime(testStartTime.Add(2 * time.Minute))
	w.reconcileOnce(t, req)
	w.Engine = injectors.NewEngine(injectors.Builtin(), gang.Config{OmitFailureOutput: true})
	recorder := events.NewFakeRecorder(100)
	w.Recorder = recorder
	var now batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(now.Annotations[gang.AnnotationStatus], "confidential") {
		t.Fatalf("the first manager recorded no output: %s", now.Annotations[gang.AnnotationStatus])
	}
	now.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	if err := w.Client.Status().Update(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.reconcileOnce(t, req)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
		t.Fatal(err)
	}
	text := now.Annotations[gang.AnnotationStatus]
	for len(recorder.Events) > 0 {
		text += <-recorder.Events
	}
	if lifecycle.ReadPhase(gang.Workload{Job: &now}) != lifecycle.Failed || strings.Contains(text, "confidential") {
		t.Errorf("the gang is %s with %s", now.Labels[gang.LabelPhase], text)
	}
}
