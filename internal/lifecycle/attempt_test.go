package lifecycle_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

func attemptOf(s lifecycle.State) int32 { return s.Attempt }

func jobStartTimeOf(s lifecycle.State) time.Time { return s.JobStartTime }

func firstReason(s lifecycle.State) string { return s.FirstFailure.Reason }

func withPods(s *lifecycle.Snapshot) { s.HasPods = true }

// TestStateNextAttempt checks when the number of the attempt rises, and that no failure counts in two
// attempts.
func TestStateNextAttempt(t *testing.T) {
	suspended := lifecycle.Observation{Suspended: true}
	secondAttempt, countedAgain := pendingState, lifecycle.Observation{FailedPods: 1, StartTime: podtest.At(0)}
	secondAttempt.Attempt = 1
	testStateNext(t, map[string]stateCase{
		"a pod that is counted when an attempt starts is of the attempt before": {
			state:     secondAttempt,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(countedAgain, observedAt(2)),
			wantPhase: lifecycle.Pending,
			check:     expectField("failed pods baseline", 1, failedPodsBaseline),
		},
		"a pod that is counted a minute later is of the attempt": {
			state:     secondAttempt,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(countedAgain, observedAt(60)),
			wantPhase: lifecycle.Restarting,
			check:     expectField("reason", failure.ReasonUnobserved, firstReason),
		},
		"a restart starts an attempt": {
			state:        runningState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
			check:        expectField("attempt", 1, attemptOf),
		},
		"a suspension of a running gang starts an attempt": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(suspended),
			wantPhase: lifecycle.Suspended,
			check:     expectField("attempt", 1, attemptOf),
		},
		"a suspension of a pending gang with pods starts an attempt": {
			state:     pendingState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(suspended, withPods),
			wantPhase: lifecycle.Suspended,
			check:     expectField("attempt", 1, attemptOf),
		},
		"a gang that was created suspended has its first attempt before it": {
			state:     pendingState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(suspended),
			wantPhase: lifecycle.Suspended,
			check:     expectField("attempt", 0, attemptOf),
		},
		"a gang that stays suspended keeps its attempt": {
			state:     suspendedState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(suspended, withPods),
			wantPhase: lifecycle.Suspended,
			check:     expectField("attempt", 0, attemptOf),
		},
		"a suspension of a restarting gang keeps its attempt": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspended, withPods, withAllPodsTerminated),
			wantPhase:    lifecycle.Suspended,
			wantRestarts: 2,
			check:        expectField("attempt", 0, attemptOf),
		},
		"a failure before the suspension does not count after it": {
			state:     suspendedState,
			policies:  gang.RestartRules{RestartPolicy: gang.RestartPolicyGang},
			snapshot:  newSnapshot(lifecycle.Observation{FailedPods: 1}, withFailure, observedAt(3600)),
			wantPhase: lifecycle.Pending,
			check:     expectField("failed pods baseline", 1, failedPodsBaseline),
		},
	})
}

// TestStateNextUnobservedSuspension checks that a gang restarts if a Job was suspended and resumed while no pass
// observed it, and a rank had completed before. That rank does not run again.
func TestStateNextUnobservedSuspension(t *testing.T) {
	started := func(second int, o lifecycle.Observation) lifecycle.Observation {
		o.StartTime = podtest.At(second)
		return o
	}
	withCompletedRank := func(s *lifecycle.Snapshot) { s.CompletedRanks = "1" }
	running := runningState
	running.JobStartTime = podtest.At(1)
	testStateNext(t, map[string]stateCase{
		"a rank had completed": {
			state:     running,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(started(9, readyRanks), withCompletedRank),
			wantPhase: lifecycle.Restarting,
			check:     expectField("attempt", 1, attemptOf),
		},
		"a rank had completed in a gang that never restarts": {
			state:     running,
			policies:  gang.RestartRules{RestartPolicy: gang.RestartPolicyNever},
			snapshot:  newSnapshot(started(9, readyRanks), withCompletedRank),
			wantPhase: lifecycle.Restarting,
		},
		"no rank had completed": {
			state:     running,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(started(9, readyRanks), func(s *lifecycle.Snapshot) { s.CompletedRanks = lifecycle.NoRanks }),
			wantPhase: lifecycle.Running,
		},
		"the Job was not suspended": {
			state:     running,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(started(1, readyRanks), withCompletedRank),
			wantPhase: lifecycle.Running,
			check:     expectField("start of the Job", podtest.At(1), jobStartTimeOf),
		},
		"the Job is suspended": {
			state:     running,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(started(9, suspendedRanks), withCompletedRank, withPods),
			wantPhase: lifecycle.Pending,
		},
	})
}

// TestStartOfUnobservedSuspension checks that a suspension that nobody observed restarts no gang without completed
// ranks, even if a rank of the resumed Job completes before all of its ranks were ready together.
func TestStartOfUnobservedSuspension(t *testing.T) {
	state := runningState
	state.JobStartTime = podtest.At(1)
	for _, completed := range []string{lifecycle.NoRanks, "1"} {
		resumed := lifecycle.Observation{ActivePods: 1, StartTime: podtest.At(9)}
		snapshot := newSnapshot(resumed)
		snapshot.CompletedRanks = completed
		state = state.Next(defaultPolicies, snapshot)
		if state.Phase == lifecycle.Restarting {
			t.Fatalf("with the completed ranks %s, the gang restarts: %v", completed, state.FirstFailure)
		}
	}
}

// TestReadAttempt checks the number of the attempt in statuses of this and earlier builds.
func TestReadAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   int32
	}{
		"earlier builds number attempts by restarts": {status: `{"version":1,"restarts":2}`, want: 2},
		"attempts have their own number": {
			status: `{"version":1,"restarts":1,"internal":{"attempt":4}}`, want: 4,
		},
		"a number that Rollcall cannot reach": {
			status: `{"version":1,"internal":{"attempt":2147483647}}`, want: 1_000_000,
		},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationStatus: c.status}}}
		if got := lifecycle.ReadStatus(gang.Workload{Job: job}).Attempt; got != c.want {
			t.Errorf("%s: attempt %d, want %d", name, got, c.want)
		}
	}
}
