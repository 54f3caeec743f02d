package gang_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		now    gang.Phase
		seen   gang.Observation
		want   gang.Phase
	}{
		"new":                    {"no rank is there yet", "", gang.Observation{Size: 2}, gang.Pending},
		"some ready":             {"a gang runs as one or not at all", gang.Pending, gang.Observation{Size: 2, Ready: 1, Present: 2}, gang.Pending},
		"all ready":              {"", gang.Pending, gang.Observation{Size: 2, Ready: 2, Present: 2}, gang.Running},
		"one is done":            {"ranks end one after the other, and that is no step back", gang.Running, gang.Observation{Size: 2, Ready: 1, Present: 2}, gang.Running},
		"all done, not complete": {"the Job's verdict comes a moment later", gang.Running, gang.Observation{Size: 2, Present: 2}, gang.Running},
		"one fell":               {"a rank that has to be replaced is not there", gang.Running, gang.Observation{Size: 2, Ready: 1, Present: 1}, gang.Pending},
		"replaced":               {"", gang.Pending, gang.Observation{Size: 2, Ready: 2, Present: 2}, gang.Running},
		"replaced, not ready":    {"what was Pending runs when all are ready, not when all are there", gang.Pending, gang.Observation{Size: 2, Ready: 1, Present: 2}, gang.Pending},
		"suspended":              {"held back is not failed", gang.Running, gang.Observation{Size: 2, Suspended: true}, gang.Pending},
		"scaled to nothing":      {"zero of zero ranks are ready, and nothing runs", gang.Running, gang.Observation{}, gang.Pending},
		"complete":               {"", gang.Running, gang.Observation{Size: 2, Complete: true}, gang.Succeeded},
		"complete at once":       {"a short gang may never have been seen running", "", gang.Observation{Size: 2, Complete: true}, gang.Succeeded},
		"failed":                 {"", gang.Running, gang.Observation{Size: 2, Failed: true}, gang.Failed},
		"failed while pending":   {"", gang.Pending, gang.Observation{Size: 2, Failed: true}, gang.Failed},
		"after success":          {"a Job's verdict stays, and the phase with it", gang.Succeeded, gang.Observation{Size: 2, Complete: true}, gang.Succeeded},
		"label set by hand":      {"a label is no verdict", gang.Failed, gang.Observation{Size: 2, Ready: 2, Present: 2}, gang.Running},
		"label against verdict":  {"the verdict counts", gang.Failed, gang.Observation{Size: 2, Complete: true}, gang.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			if got := gang.Next(c.now, gang.Alone(c.seen)); got != c.want {
				t.Errorf("%s: from %q with %+v: got %q, want %q", c.reason, c.now, c.seen, got, c.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	size := ptr.To[int32](2)
	for name, c := range map[string]struct {
		reason string
		in     gang.Workload
		want   gang.Observation
	}{
		"Job": {
			"a rank that is done but not counted yet is there",
			gang.Workload{Job: &batchv1.Job{
				Spec: batchv1.JobSpec{Parallelism: size},
				Status: batchv1.JobStatus{Active: 1, Ready: ptr.To[int32](1),
					UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}},
			}},
			gang.Observation{Size: 2, Ready: 1, Present: 2, Done: 1},
		},
		"suspended Job": {
			"",
			gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size, Suspend: ptr.To(true)}}},
			gang.Observation{Size: 2, Suspended: true},
		},
		"complete Job": {
			"",
			gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size}, Status: batchv1.JobStatus{
				Succeeded: 2, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}},
			gang.Observation{Size: 2, Present: 2, Done: 2, Complete: true},
		},
		"condition taken back": {
			"a condition counts when it is true",
			gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size}, Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionFalse}}}}},
			gang.Observation{Size: 2},
		},
		"failed Job": {
			"the reason is for the user",
			gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size}, Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "too long"}}}}},
			gang.Observation{Size: 2, Failed: true, Message: "DeadlineExceeded: too long"},
		},
		"StatefulSet": {
			"",
			gang.Workload{StatefulSet: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: size}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 2}}},
			gang.Observation{Set: true, Size: 2, Ready: 2, Present: 2},
		},
		"StatefulSet with an old status": {
			"a status that has not seen the new size says nothing about it",
			gang.Workload{StatefulSet: &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec:       appsv1.StatefulSetSpec{Replicas: size}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 2, ObservedGeneration: 1}}},
			gang.Observation{Set: true, Size: 2},
		},
		"StatefulSet of nothing": {
			"",
			gang.Workload{StatefulSet: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0)}}},
			gang.Observation{Set: true, Suspended: true, Halted: true},
		},
		"halted Job": {
			"held back, and its pods are gone",
			gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size, Suspend: ptr.To(true)}, Status: batchv1.JobStatus{
				Failed: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}}},
			gang.Observation{Size: 2, Suspended: true, Halted: true, Fallen: 1},
		},
		"halting Job": {
			"whether those that go have gone is told apart: a lost node keeps its pods for good",
			gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size, Suspend: ptr.To(true)}, Status: batchv1.JobStatus{
				Terminating: ptr.To[int32](1), Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}}},
			gang.Observation{Size: 2, Suspended: true, Halted: true, Leaving: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, gang.Observe(c.in)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestPhaseOf(t *testing.T) {
	for label, want := range map[string]gang.Phase{"": "", "Running": gang.Running, "nonsense": ""} {
		w := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{gang.LabelPhase: label}}}}
		if got := gang.PhaseOf(w); got != want {
			t.Errorf("label %q is read as %q, want %q", label, got, want)
		}
	}
}
