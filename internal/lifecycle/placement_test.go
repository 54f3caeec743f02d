package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestScheduleTimeout checks when a gang gives back the nodes that some of its ranks hold.
func TestScheduleTimeout(t *testing.T) {
	limited, never := defaultPolicies, defaultPolicies
	limited.ScheduleTimeout, never.ScheduleTimeout = time.Minute, time.Minute
	never.RestartPolicy = gang.RestartPolicyNever
	pending := lifecycle.Observation{Size: 2, ActivePods: 2, ReadyPods: 1}
	isHeld := lifecycle.Placement{Bound: 1, Unbound: 1, UnboundSince: podtest.At(10)}
	at := func(seconds int, p lifecycle.Placement, o lifecycle.Observation) lifecycle.Snapshot {
		snapshot := newSnapshot(o, observedAt(seconds))
		snapshot.Placement = p
		return snapshot
	}
	for name, c := range map[string]struct {
		policies  gang.RestartRules
		snapshot  lifecycle.Snapshot
		completed bool
		want      lifecycle.Phase
	}{
		"the gang waits until the timeout": {
			policies: limited, snapshot: at(69, isHeld, pending), want: lifecycle.Pending,
		},
		"the gang gives its nodes back afterward": {
			policies: limited, snapshot: at(85, isHeld, pending), want: lifecycle.Restarting,
		},
		"a gang without a timeout keeps its nodes": {
			policies: defaultPolicies, snapshot: at(85, isHeld, pending), want: lifecycle.Pending,
		},
		"a gang that may not restart keeps its nodes": {
			policies: never, snapshot: at(85, isHeld, pending), want: lifecycle.Pending,
		},
		"a gang whose ranks were all ready once keeps its nodes": {
			policies: limited, snapshot: at(85, isHeld, pending), completed: true, want: lifecycle.Pending,
		},
		"a gang that got its first node after the timeout waits for the others": {
			policies: limited, want: lifecycle.Pending,
			snapshot: at(85, lifecycle.Placement{
				Bound: 1, Unbound: 1, UnboundSince: podtest.At(10), BoundSince: podtest.At(84),
			}, pending),
		},
		"a gang that holds no nodes waits": {
			policies: limited, want: lifecycle.Pending,
			snapshot: at(85, lifecycle.Placement{Unbound: 2, UnboundSince: podtest.At(10)}, pending),
		},
		"a gang with all nodes starts its programs": {
			policies: limited, snapshot: at(85, lifecycle.Placement{Bound: 2}, pending), want: lifecycle.Pending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(lifecycle.Pending, 0)
			s.StartCompleted = c.completed
			got := s.Next(c.policies, c.snapshot)
			if got.Phase != c.want || got.Restarts != 0 {
				t.Errorf("phase %s, %d restarts, want %s and no restart", got.Phase, got.Restarts, c.want)
			}
			if f := got.FirstFailure; c.want == lifecycle.Restarting &&
				(f == nil || f.Reason != failure.ReasonScheduleTimeout || got.Disruptions != 1) {
				t.Errorf("the first failure is %v after %d disruptions", f, got.Disruptions)
			}
		})
	}
}

// TestScheduleDeadlineDiffers checks that two gangs that hold the nodes of each other since the same second do not give
// them back at the same time.
func TestScheduleDeadlineDiffers(t *testing.T) {
	policies := defaultPolicies
	policies.ScheduleTimeout = 10 * time.Minute
	deadlines := map[time.Time]bool{}
	for _, uid := range []types.UID{"a", "b", "c", "d", "e", "f", "g", "h"} {
		snapshot := newSnapshot(lifecycle.Observation{UID: uid, Size: 2}, observedAt(0))
		snapshot.Placement = lifecycle.Placement{Bound: 1, Unbound: 1, UnboundSince: podtest.At(0)}
		deadline := newState(lifecycle.Pending, 0).NextDeadline(policies, snapshot)
		if early, late := podtest.At(600), podtest.At(750); deadline.Before(early) || deadline.After(late) {
			t.Errorf("the deadline is %s, want a time between %s and %s", deadline, early, late)
		}
		deadlines[deadline] = true
	}
	if len(deadlines) < 6 {
		t.Errorf("8 gangs have %d deadlines", len(deadlines))
	}
}

// TestPlacementOfPods checks which pods hold a node, and which wait for one.
func TestPlacementOfPods(t *testing.T) {
	var pods []corev1.Pod
	add := func(node string, seconds int, change func(*corev1.Pod)) {
		pod := podtest.RankPod(len(pods), change)
		pod.Spec.NodeName, pod.CreationTimestamp.Time = node, podtest.At(seconds)
		pods = append(pods, pod)
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = phase, nil }
	}
	scheduled := func(name corev1.PodConditionType, seconds int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{
				Type: name, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(podtest.At(seconds)),
			}}
		}
	}
	add("node-a", 0, scheduled(corev1.PodScheduled, 8))
	add("node-a", 0, scheduled(corev1.PodReady, 9))
	add("node-a", 1, phase(corev1.PodFailed))
	add("node-a", 2, podtest.Deleted(5))
	add("", 3, podtest.Deleted(5))
	add("", 5, phase(corev1.PodPending))
	add("", 4, phase(corev1.PodPending))
	job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](7), Completions: ptr.To[int32](7)}}
	observed := lifecycle.State{}.Observe(lifecycle.Evidence{Now: podtest.At(10), Workloads: []lifecycle.WorkloadEvidence{{
		Workload: gang.Workload{Job: job}, Gang: gang.Gang{Members: []gang.Member{{Size: 7}}}, Pods: pods,
	}}}, &lifecycle.Memory{})
	want := lifecycle.Placement{Bound: 2, Unbound: 2, UnboundSince: podtest.At(4), BoundSince: podtest.At(8)}
	if diff := cmp.Diff(want, observed.Placement); diff != "" {
		t.Errorf("the placement (-want +got):\n%s", diff)
	}
}
