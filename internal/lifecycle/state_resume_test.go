package lifecycle_test

import (
	"testing"
	"time"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// newSnapshotWithCompleteJob returns a snapshot of a restarting gang whose second Job is complete. Either
// this Job or the first Job determines completion.
func newSnapshotWithCompleteJob(determinesCompletion bool) lifecycle.Snapshot {
	s := newTwoMemberSnapshot(suspendedRanks, lifecycle.Observation{
		Size: 2, Suspended: true, SuspendedByRollcall: true, Complete: true,
	})
	s.Members[0].Observed.Size = 1
	s.Members[0].DeterminesCompletion, s.Members[1].DeterminesCompletion = !determinesCompletion, determinesCompletion
	return s
}

// TestStateNextResume checks when a gang that restarts, is suspended or has finished starts an attempt.
func TestStateNextResume(t *testing.T) {
	testStateNext(t, map[string]stateCase{
		"restart waits for terminating pods": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, observedAt(60)),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"restart waits for back-off": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, withAllPodsTerminated, observedAt(17)),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"restarted gang is resumed": {
			state:    restartingState,
			policies: defaultPolicies,
			snapshot: newSnapshot(lifecycle.Observation{
				Suspended:           true,
				SuspendedByRollcall: true,
				FailedPods:          2,
			}, withAllPodsTerminated, observedAt(18)),
			wantPhase:    lifecycle.Pending,
			wantRestarts: 2,
			check:        expectField("failed pods baseline", int32(2), failedPodsBaseline),
		},
		"pods that the Job has not counted are part of the baseline": {
			state:    restartingState,
			policies: defaultPolicies,
			snapshot: newSnapshot(lifecycle.Observation{
				Suspended:           true,
				SuspendedByRollcall: true,
				FailedPods:          2,
			}, withAllPodsTerminated, observedAt(18), func(s *lifecycle.Snapshot) { s.UncountedFailures = 3 }),
			wantPhase:    lifecycle.Pending,
			wantRestarts: 2,
			check:        expectField("failed pods baseline", int32(5), failedPodsBaseline),
		},
		"failure while the gang terminates is not another failure": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"queue resumes the gang after the back-off": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(queuedRanks, withAllPodsTerminated, observedAt(18)),
			wantPhase:    lifecycle.Suspended,
			wantRestarts: 2,
			check:        expectField("next restart time", time.Time{}, nextRestartTime),
		},
		"queue does not resume a gang with terminating pods": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(queuedRanks, observedAt(60)),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"queue does not resume a gang during its back-off": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(queuedRanks, withAllPodsTerminated, observedAt(17)),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"restarting gang whose worker Job completes cannot restart": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshotWithCompleteJob(false),
			wantPhase:    lifecycle.Failed,
			wantRestarts: 2,
		},
		"restarting gang succeeds if the Job that completes determines completion": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshotWithCompleteJob(true),
			wantPhase:    lifecycle.Succeeded,
			wantRestarts: 2,
		},
		"queue of one member suspends the other member too": {
			state:    restartingState,
			policies: defaultPolicies,
			snapshot: func() lifecycle.Snapshot {
				s := newTwoMemberSnapshot(suspendedRanks, queuedRanks)
				s.AllPodsTerminated, s.Now = true, podtest.At(18)
				return s
			}(),
			wantPhase:    lifecycle.Suspended,
			wantRestarts: 2,
		},
		"queue resumed the gang": {
			state:        lifecycle.State{Phase: lifecycle.Suspended, Restarts: 2, LastRestartTime: podtest.At(1)},
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{ManagedByQueue: true, FailedPods: 2}),
			wantPhase:    lifecycle.Pending,
			wantRestarts: 2,
			check:        expectField("failed pods baseline", int32(2), failedPodsBaseline),
		},
		"queue keeps the gang suspended": {
			state:        lifecycle.State{Phase: lifecycle.Suspended, Restarts: 2},
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{Suspended: true, ManagedByQueue: true}),
			wantPhase:    lifecycle.Suspended,
			wantRestarts: 2,
		},
		"queue evicted the gang, which is not a failure": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{Suspended: true, ManagedByQueue: true}, withFailure),
			wantPhase: lifecycle.Suspended,
		},
		"queue resumed the gang while the webhook was unavailable": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{ActivePods: 2, ManagedByQueue: true}, withExternalResume),
			wantPhase:    lifecycle.Pending,
			wantRestarts: 2,
		},
		"restarting gang was resumed externally": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{ActivePods: 2}, withExternalResume),
			wantPhase:    lifecycle.Pending,
			wantRestarts: 2,
		},
		"restarting gang was resumed externally before its pods terminated": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{ActivePods: 2}, withExternalResume, withPodsTerminating),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"failed gang keeps its phase": {
			state:        failedState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks),
			wantPhase:    lifecycle.Failed,
			wantRestarts: 3,
		},
		"failed StatefulSet is scaled up again": {
			state:    failedState,
			policies: defaultPolicies,
			// The failure belongs to the attempt that failed. Its pod may still be terminating.
			snapshot:  newSnapshot(lifecycle.Observation{IsStatefulSet: true, Size: 2}, withExternalResume, withFailure),
			wantPhase: lifecycle.Pending,
		},
		"succeeded StatefulSet is scaled up again": {
			state:     lifecycle.State{Phase: lifecycle.Succeeded, Restarts: 3},
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{IsStatefulSet: true, Size: 2}, withExternalResume),
			wantPhase: lifecycle.Pending,
		},
		"succeeded StatefulSet stays scaled down": {
			state:     lifecycle.State{Phase: lifecycle.Succeeded},
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{IsStatefulSet: true, Suspended: true, SuspendedByRollcall: true}),
			wantPhase: lifecycle.Succeeded,
		},
		"user suspended the gang, which is not a failure": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{Suspended: true}, withFailure),
			wantPhase: lifecycle.Suspended,
		},
		"restarting gang was suspended by its user": {
			state:        restartingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{Suspended: true}, withAllPodsTerminated, observedAt(60)),
			wantPhase:    lifecycle.Suspended,
			wantRestarts: 2,
		},
		"one of two members stays suspended by its user": {
			state:    suspendedState,
			policies: defaultPolicies,
			snapshot: newTwoMemberSnapshot(lifecycle.Observation{Size: 2, Suspended: true}, lifecycle.Observation{
				Size:                2,
				Suspended:           true,
				SuspendedByRollcall: true,
			}),
			wantPhase: lifecycle.Suspended,
		},
		"user resumed one member and Rollcall resumes the other": {
			state:    suspendedState,
			policies: defaultPolicies,
			snapshot: newTwoMemberSnapshot(lifecycle.Observation{Size: 2}, lifecycle.Observation{
				Size:                2,
				Suspended:           true,
				SuspendedByRollcall: true,
			}),
			wantPhase: lifecycle.Pending,
		},
		"user resumed the gang": {
			state:     suspendedState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{}),
			wantPhase: lifecycle.Pending,
		},
		"pods of a resumed gang are still terminating": {
			state:     suspendedState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{}, withFailure, withPodsTerminating),
			wantPhase: lifecycle.Suspended,
		},
		"Job counts the pods of a resumed gang as failed": {
			state:     suspendedState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{FailedPods: 2}),
			wantPhase: lifecycle.Pending,
		},
		"one of two members is not resumed yet": {
			state: lifecycle.State{
				Phase:       lifecycle.Pending,
				Restarts:    1,
				Bookkeeping: withAttemptStart,
			},
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks),
			wantPhase:    lifecycle.Pending,
			wantRestarts: 1,
		},
		"some ranks have been ready for a while": {
			state:    pendingState,
			policies: defaultPolicies,
			snapshot: newSnapshot(lifecycle.Observation{
				ReadyPods:  1,
				ActivePods: 2,
			}, func(s *lifecycle.Snapshot) { s.PartiallyReady = true }),
			wantPhase: lifecycle.Starting,
		},
		"starting gang does not become pending again": {
			state:     startingState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{ActivePods: 2}),
			wantPhase: lifecycle.Starting,
		},
	})
}
