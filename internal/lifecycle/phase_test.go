package lifecycle_test

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
	"rollcall.training/internal/lifecycle"
)

func TestNextPhase(t *testing.T) {
	for name, c := range map[string]struct {
		previous lifecycle.Phase
		observed lifecycle.Observation
		want     lifecycle.Phase
	}{
		"no pod exists": {observed: lifecycle.Observation{Size: 2}, want: lifecycle.Pending},
		"some ranks are ready": {
			previous: lifecycle.Pending,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 1, ActivePods: 2},
			want:     lifecycle.Pending,
		},
		"all ranks are ready": {
			previous: lifecycle.Pending,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 2, ActivePods: 2},
			want:     lifecycle.Running,
		},
		"one rank succeeded before the last rank was ready": {
			previous: lifecycle.Pending,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 1, SucceededPods: 1, ActivePods: 1},
			want:     lifecycle.Pending, // the Job may count a rank that runs again
		},
		"one rank succeeded before its peers": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 1, ActivePods: 2},
			want:     lifecycle.Running,
		},
		"all ranks succeeded before the Job is complete": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{Size: 2, ActivePods: 2},
			want:     lifecycle.Running,
		},
		"one rank has to be replaced": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 1, ActivePods: 1},
			want:     lifecycle.Pending,
		},
		"replaced rank is ready": {
			previous: lifecycle.Pending,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 2, ActivePods: 2},
			want:     lifecycle.Running,
		},
		"replaced rank is not ready": {
			previous: lifecycle.Pending,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 1, ActivePods: 2},
			want:     lifecycle.Pending,
		},
		"suspended workload": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{Size: 2, Suspended: true},
			want:     lifecycle.Pending,
		},
		"workload without ranks": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{},
			want:     lifecycle.Pending,
		},
		"Job is complete": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{Size: 2, Complete: true},
			want:     lifecycle.Succeeded,
		},
		"Job is complete before it was observed running": {
			observed: lifecycle.Observation{Size: 2, Complete: true},
			want:     lifecycle.Succeeded,
		},
		"Job failed": {
			previous: lifecycle.Running,
			observed: lifecycle.Observation{Size: 2, Failed: true},
			want:     lifecycle.Failed,
		},
		"Job failed while ranks were pending": {
			previous: lifecycle.Pending,
			observed: lifecycle.Observation{Size: 2, Failed: true},
			want:     lifecycle.Failed,
		},
		"succeeded gang keeps its phase": {
			previous: lifecycle.Succeeded,
			observed: lifecycle.Observation{Size: 2, Complete: true},
			want:     lifecycle.Succeeded,
		},
		"label set by hand does not fail the gang": {
			previous: lifecycle.Failed,
			observed: lifecycle.Observation{Size: 2, ReadyPods: 2, ActivePods: 2},
			want:     lifecycle.Running,
		},
		"condition overrides the label": {
			previous: lifecycle.Failed,
			observed: lifecycle.Observation{Size: 2, Complete: true},
			want:     lifecycle.Succeeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lifecycle.NewSingleMember(c.observed).Phase(c.previous); got != c.want {
				t.Errorf("from %q with %+v: got %q, want %q", c.previous, c.observed, got, c.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	size := ptr.To[int32](2)
	for name, c := range map[string]struct {
		workload gang.Workload
		want     lifecycle.Observation
	}{
		"Job with a succeeded pod that is not counted yet": {
			workload: gang.Workload{Job: &batchv1.Job{
				Spec: batchv1.JobSpec{Parallelism: size},
				Status: batchv1.JobStatus{Active: 1, Ready: ptr.To[int32](1),
					UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}},
			}},
			want: lifecycle.Observation{Size: 2, ReadyPods: 1, SucceededPods: 1, ActivePods: 1},
		},
		"suspended Job": {
			workload: gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size, Suspend: ptr.To(true)}}},
			want:     lifecycle.Observation{Size: 2, Suspended: true},
		},
		"complete Job": {
			workload: gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size}, Status: batchv1.JobStatus{
				Succeeded: 2, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}},
			want: lifecycle.Observation{Size: 2, SucceededPods: 2, Complete: true},
		},
		"condition that is false": {
			workload: gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size}, Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionFalse}}}}},
			want: lifecycle.Observation{Size: 2},
		},
		"failed Job with reason and message": {
			workload: gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size}, Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{
					Type:    batchv1.JobFailed,
					Status:  corev1.ConditionTrue,
					Reason:  "DeadlineExceeded",
					Message: "too long",
				}}}}},
			want: lifecycle.Observation{Size: 2, Failed: true, Message: "DeadlineExceeded: too long"},
		},
		"StatefulSet": {
			workload: gang.Workload{
				StatefulSet: &appsv1.StatefulSet{
					Spec:   appsv1.StatefulSetSpec{Replicas: size},
					Status: appsv1.StatefulSetStatus{ReadyReplicas: 2},
				},
			},
			want: lifecycle.Observation{IsStatefulSet: true, Size: 2, ReadyPods: 2, ActivePods: 2},
		},
		"status older than the spec of a StatefulSet": {
			workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec:       appsv1.StatefulSetSpec{Replicas: size}, Status: appsv1.StatefulSetStatus{
					ReadyReplicas:      2,
					ObservedGeneration: 1,
				}}},
			want: lifecycle.Observation{IsStatefulSet: true, Size: 2},
		},
		"StatefulSet with 0 replicas": {
			workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0)}}},
			want:     lifecycle.Observation{IsStatefulSet: true, Suspended: true, SuspensionObserved: true},
		},
		"suspended Job without pods": {
			workload: gang.Workload{
				Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size, Suspend: ptr.To(true)}, Status: batchv1.JobStatus{
					Failed: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}},
			},
			want: lifecycle.Observation{Size: 2, Suspended: true, SuspensionObserved: true, FailedPods: 1},
		},
		"suspended Job with a terminating pod": {
			workload: gang.Workload{
				Job: &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: size, Suspend: ptr.To(true)}, Status: batchv1.JobStatus{
					Terminating: ptr.To[int32](1), Conditions: []batchv1.JobCondition{{
						Type:   batchv1.JobSuspended,
						Status: corev1.ConditionTrue,
					}}}},
			},
			want: lifecycle.Observation{Size: 2, Suspended: true, SuspensionObserved: true, TerminatingPods: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lifecycle.Observe(c.workload)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadPhase(t *testing.T) {
	for label, want := range map[string]lifecycle.Phase{"": "", "Running": lifecycle.Running, "nonsense": ""} {
		w := gang.Workload{
			Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{gang.LabelPhase: label}}},
		}
		if got := lifecycle.ReadPhase(w); got != want {
			t.Errorf("label %q is read as %q, want %q", label, got, want)
		}
	}
}
