package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// told is a Job of one rank, whose gang is in a state.
func told(t *testing.T, s gang.Status, change ...func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: meta("train", "pytorch", "worker", ""), Spec: one()}
	for _, c := range change {
		c(job)
	}
	admit(t, job)
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(s.Phase)
	job.Spec.Suspend = ptr.To(s.Stopped)
	return job
}

var trainJob = Request{Namespace: "team", Kind: gang.Job, Name: "train"}

// TestLabelOfPhase: whoever writes or takes away the label neither ends a gang nor lets one go; the label comes back.
func TestLabelOfPhase(t *testing.T) {
	fell := &gang.Fall{Rank: 0, Pod: "train-0", Container: "trainer", Reason: "Error", ExitCode: 1, At: began}
	running := gang.Status{Phase: gang.Running, Reason: gang.ReasonGangRunning, Since: began, Attempt: 1, Begun: began, Fell: began, Cause: fell}
	restarting := gang.Status{Phase: gang.Restarting, Reason: gang.ReasonGangRestarting, Since: began, Attempt: 2, Begun: began, Fell: began,
		NotBefore: began.Add(time.Hour), Cause: fell, Stopped: true}
	for name, c := range map[string]struct {
		reason string
		state  gang.Status
		label  string
	}{
		"Failed, of one that runs":   {"its last cause is there still, and would be that of its end", running, "Failed"},
		"none, of one that restarts": {"its back-off is not over", restarting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := told(t, c.state)
			job.Status.Active, job.Status.Ready = 1, ptr.To[int32](1)
			if c.state.Stopped {
				job.Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}
			}
			job.Labels[gang.LabelPhase] = c.label
			w := newWorld(t, job)
			w.look(t, trainJob)
			now := &batchv1.Job{}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), now); err != nil {
				t.Fatal(err)
			}
			if got := now.Labels[gang.LabelPhase]; got != string(c.state.Phase) {
				t.Errorf("%s: the label is %q, want %s", c.reason, got, c.state.Phase)
			}
			if now.Spec.ActiveDeadlineSeconds != nil || *now.Spec.Suspend != c.state.Stopped {
				t.Errorf("%s: it was ended by %v, or is suspended: %v", c.reason, now.Spec.ActiveDeadlineSeconds, *now.Spec.Suspend)
			}
		})
	}
}
