package controller

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// lostPodGracePeriod is the grace period of the pod of newLostPod.
const lostPodGracePeriod = 30 * time.Second

// newLostPod returns the pod of rank 0 of attempt 0, on a node that does not respond. Its deletion was requested
// at the start time of the test.
func newLostPod(job *batchv1.Job) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:                  "team",
			Name:                       job.Name + "-0",
			Labels:                     map[string]string{gang.LabelGang: "train", gang.LabelAttempt: "0"},
			Finalizers:                 []string{"example.com/lost"},
			DeletionTimestamp:          ptr.To(metav1.NewTime(testStartTime.Add(lostPodGracePeriod))),
			DeletionGracePeriodSeconds: ptr.To(int64(lostPodGracePeriod.Seconds())),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
			},
		},
		Spec:   corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// expectJobPhase checks the phase of a Job, and that it is suspended only while its gang restarts.
func (w *testCluster) expectJobPhase(t *testing.T, name string, want lifecycle.Phase) *batchv1.Job {
	t.Helper()
	var now batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &now); err != nil {
		t.Fatal(err)
	}
	got := lifecycle.ReadPhase(gang.Workload{Job: &now})
	if got != want || *now.Spec.Suspend != (want == lifecycle.Restarting) {
		t.Errorf("after %s: phase %s, suspended %v; want %s", w.clock.Since(testStartTime), got, *now.Spec.Suspend, want)
	}
	return &now
}

// TestLostNode checks that a restart waits for terminating pods, but not for a node that does not respond.
func TestLostNode(t *testing.T) {
	job := newRestartingJob(t)
	job.Status.Terminating = ptr.To[int32](1)
	w := newTestCluster(t, job, newLostPod(job))
	deadline := testStartTime.Add(lostPodGracePeriod)
	for _, step := range []struct {
		at        time.Time
		wantDelay time.Duration
		wantPhase lifecycle.Phase
	}{
		{at: deadline, wantDelay: lifecycle.StuckPodGracePeriod, wantPhase: lifecycle.Restarting},
		{at: deadline.Add(lifecycle.StuckPodGracePeriod), wantDelay: isolationDelay, wantPhase: lifecycle.Restarting},
		{
			at:        deadline.Add(lifecycle.StuckPodGracePeriod + isolationDelay),
			wantDelay: lifecycle.TerminationTimeout - lifecycle.StuckPodGracePeriod - isolationDelay,
			wantPhase: lifecycle.Restarting,
		},
		{at: deadline.Add(lifecycle.TerminationTimeout), wantPhase: lifecycle.Pending},
	} {
		w.clock.SetTime(step.at)
		if after := w.reconcileOnce(t, torchRequest); after != step.wantDelay {
			t.Errorf("after %s, the next pass is due in %s, want %s", w.clock.Since(testStartTime), after, step.wantDelay)
		}
		w.expectJobPhase(t, "train", step.wantPhase)
	}
	if now := w.expectJobPhase(t, "train", lifecycle.Pending); now.Spec.Template.Labels[gang.LabelAttempt] != "1" {
		t.Errorf("labels of the template: %v", now.Spec.Template.Labels)
	}
}

// TestRestartOnNodeLoss checks that a restart does not wait for the grace period of a pod on a node that Kubernetes has
// found lost, and that the annotation makes it wait until somebody confirms that the node is gone.
func TestRestartOnNodeLoss(t *testing.T) {
	for name, c := range map[string]struct {
		annotation  string
		hasReturned bool
		wantPhase   lifecycle.Phase
		wantAttempt string // in the selector of the Service
		wantMessage string
	}{
		"without the annotation": {wantPhase: lifecycle.Pending, wantAttempt: "1"},
		"the node has returned":  {hasReturned: true, wantPhase: lifecycle.Restarting},
		"with the annotation": {
			annotation: "false", wantPhase: lifecycle.Restarting, wantMessage: gang.AnnotationRestartOnNodeLoss,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRestartingJob(t)
			if c.annotation != "" {
				job.Annotations[gang.AnnotationRestartOnNodeLoss] = c.annotation
			}
			job.Status.Terminating = ptr.To[int32](1)
			pod := newLostPod(job)
			if !c.hasReturned {
				pod.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(testStartTime)},
					{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
				}
			}
			w := newTestCluster(t, job, pod)
			w.clock.SetTime(testStartTime)
			for range 3 {
				if _, err := w.Reconcile(t.Context(), torchRequest); err != nil {
					t.Fatal(err)
				}
				w.expectJobPhase(t, "train", lifecycle.Restarting)
			}
			w.clock.SetTime(testStartTime.Add(isolationDelay))
			w.reconcileOnce(t, torchRequest)
			w.expectJobPhase(t, "train", c.wantPhase)
			if c.annotation != "" {
				w.clock.SetTime(overdueTime.Add(time.Hour))
				w.reconcileOnce(t, torchRequest)
				w.expectJobPhase(t, "train", lifecycle.Restarting)
			}
			if got := w.getService(t, "train").Spec.Selector[gang.LabelAttempt]; got != c.wantAttempt {
				t.Errorf("the Service selects the attempt %q, want %q", got, c.wantAttempt)
			}
			if _, status := w.getJob(t, "train"); !strings.Contains(status.Message, c.wantMessage) {
				t.Errorf("the message is %q, want %q in it", status.Message, c.wantMessage)
			}
		})
	}
}
