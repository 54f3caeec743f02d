package lifecycle_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// identify returns the identity of pods with the UIDs.
func identify(uids ...types.UID) string { return lifecycle.IdentifyPods(uids) }

// TestReplacedPods checks that a gang restarts if a StatefulSet replaced a pod and nobody observed the
// deletion of the pod.
func TestReplacedPods(t *testing.T) {
	ready := lifecycle.Observation{IsStatefulSet: true, Size: 2, ReadyPods: 2, ActivePods: 2}
	for name, c := range map[string]struct {
		phase          lifecycle.Phase
		startCompleted bool
		before, after  string
		rollingOut     bool
		wantPhase      lifecycle.Phase
		wantPods       string
	}{
		"the pods are the same": {
			phase: lifecycle.Running, before: identify("a", "b"), after: identify("a", "b"),
			wantPhase: lifecycle.Running, wantPods: identify("a", "b"),
		},
		"a pod was replaced": {
			phase: lifecycle.Running, before: identify("a", "b"), after: identify("a", "c"),
			wantPhase: lifecycle.Restarting,
		},
		"a missing pod was replaced": {
			phase: lifecycle.Pending, startCompleted: true, before: identify("a", "b"), after: identify("a", "c"),
			wantPhase: lifecycle.Restarting,
		},
		"a pod is missing": {
			phase: lifecycle.Running, before: identify("a", "b"),
			wantPhase: lifecycle.Running, wantPods: identify("a", "b"),
		},
		"a rollout replaces pods": {
			phase: lifecycle.Running, before: identify("a", "b"), after: identify("a", "c"), rollingOut: true,
			wantPhase: lifecycle.Running,
		},
		"a rollout has replaced the pods": {
			phase: lifecycle.Running, after: identify("c", "d"),
			wantPhase: lifecycle.Running, wantPods: identify("c", "d"),
		},
		"the set was resized": {
			phase: lifecycle.Running, before: identify("a", "b"), after: identify("a", "b", "c"),
			wantPhase: lifecycle.Running, wantPods: identify("a", "b", "c"),
		},
		"a pod is replaced before all ranks were ready": {
			phase: lifecycle.Pending, before: identify("a", "b"), after: identify("a", "c"),
			wantPhase: lifecycle.Running, wantPods: identify("a", "c"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := lifecycle.State{Phase: c.phase, Bookkeeping: lifecycle.Bookkeeping{
				StatefulSetPods: c.before, StartCompleted: c.startCompleted,
			}}
			snapshot := newSnapshot(ready, func(s *lifecycle.Snapshot) {
				s.StatefulSetPods, s.RollingOut = c.after, c.rollingOut
			})
			next := state.Next(defaultPolicies, snapshot)
			if next.Phase != c.wantPhase || next.StatefulSetPods != c.wantPods {
				t.Errorf("%s with the pods %q, want %s with %q", next.Phase, next.StatefulSetPods, c.wantPhase, c.wantPods)
			}
			isFailed := next.FirstFailure != nil && next.FirstFailure.Reason == failure.ReasonPodDeleted
			if isFailed != (c.wantPhase == lifecycle.Restarting) {
				t.Errorf("first failure: %v", next.FirstFailure)
			}
		})
	}
}

// TestReadyTime checks that an attempt keeps the time at which all of its ranks were ready first, unless its Jobs
// change.
func TestReadyTime(t *testing.T) {
	observe := func(readyPods, ranks int32, started int) lifecycle.Observation {
		return lifecycle.Observation{Size: ranks, ReadyPods: readyPods, ActivePods: readyPods, StartTime: podtest.At(started)}
	}
	var s lifecycle.State
	for _, c := range []struct {
		seconds     int
		observation lifecycle.Observation
		want        time.Time
	}{
		{seconds: 10, observation: observe(1, 2, 1)},
		{seconds: 20, observation: observe(2, 2, 1), want: podtest.At(20)},
		{seconds: 30, observation: observe(1, 2, 1), want: podtest.At(20)},
		{seconds: 40, observation: observe(2, 2, 1), want: podtest.At(20)},
		{seconds: 50, observation: observe(1, 2, 49), want: podtest.At(20)}, // resumed by somebody
		{seconds: 60, observation: observe(2, 2, 49), want: podtest.At(60)},
		{seconds: 70, observation: observe(2, 3, 49), want: podtest.At(60)}, // a resize
		{seconds: 80, observation: observe(3, 3, 49), want: podtest.At(80)},
		{seconds: 90, observation: lifecycle.Observation{Size: 3, Suspended: true}},
		{seconds: 95, observation: observe(1, 3, 94)},
		{seconds: 99, observation: observe(3, 3, 110), want: podtest.At(110)}, // by a clock that is ahead
	} {
		inSnapshot := func(s *lifecycle.Snapshot) { s.JobRanks = c.observation.Size }
		s = storeAndRead(t, s.Next(defaultPolicies, newSnapshot(c.observation, inSnapshot, observedAt(c.seconds))))
		if !s.ReadyTime.Equal(c.want) {
			t.Errorf("after %d s, phase %s: ready at %s, want %s", c.seconds, s.Phase, s.ReadyTime, c.want)
		}
	}
}
