package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// newJobWithStatus returns a Job of one rank with a status.
func newJobWithStatus(t *testing.T, s lifecycle.Status, change ...func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec()}
	for _, c := range change {
		c(job)
	}
	admitObject(t, job)
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(s.Phase)
	job.Spec.Suspend = ptr.To(s.SuspendedByRollcall)
	return job
}

var trainJobRequest = Request{Namespace: "team", Kind: gang.Job, Name: "train"}

// TestPhaseLabelIsRestored checks that a user who changes or removes the label neither fails nor
// resumes a gang, and that the label is restored.
func TestPhaseLabelIsRestored(t *testing.T) {
	firstFailure := &failure.Failure{
		Rank:      0,
		Pod:       "train-0",
		Container: "trainer",
		Reason:    "Error",
		ExitCode:  1,
		Time:      testStartTime,
	}
	running := lifecycle.Status{
		Reason: gang.ReasonGangRunning,
		State: lifecycle.State{
			Phase:              lifecycle.Running,
			LastTransitionTime: testStartTime,
			Restarts:           1,
			LastRestartTime:    testStartTime,
			FirstFailure:       firstFailure,
			Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: testStartTime},
		},
	}
	restarting := lifecycle.Status{
		Reason: gang.ReasonGangRestarting,
		State: lifecycle.State{
			Phase:              lifecycle.Restarting,
			LastTransitionTime: testStartTime,
			Restarts:           2,
			LastRestartTime:    testStartTime,
			NextRestartTime:    testStartTime.Add(time.Minute),
			FirstFailure:       firstFailure,
			Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: testStartTime, SuspendedByRollcall: true},
		},
	}
	for name, c := range map[string]struct {
		state lifecycle.Status
		label string
	}{
		"label Failed on a running gang": {state: running, label: "Failed"},
		"no label on a restarting gang":  {state: restarting},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJobWithStatus(t, c.state)
			job.Status.Active, job.Status.Ready = 1, ptr.To[int32](1)
			if c.state.SuspendedByRollcall {
				job.Status = batchv1.JobStatus{
					Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}},
				}
			}
			job.Labels[gang.LabelPhase] = c.label
			w := newTestCluster(t, job)
			w.reconcileOnce(t, trainJobRequest)
			now := &batchv1.Job{}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), now); err != nil {
				t.Fatal(err)
			}
			if got := now.Labels[gang.LabelPhase]; got != string(c.state.Phase) {
				t.Errorf("label %q, want %s", got, c.state.Phase)
			}
			if now.Spec.ActiveDeadlineSeconds != nil || *now.Spec.Suspend != c.state.SuspendedByRollcall {
				t.Errorf("activeDeadlineSeconds %v, suspended %v", now.Spec.ActiveDeadlineSeconds, *now.Spec.Suspend)
			}
		})
	}
}
