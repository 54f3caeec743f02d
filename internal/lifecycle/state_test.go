package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

func TestBackoff(t *testing.T) {
	for n, want := range map[int32]time.Duration{
		0: 0, 1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 4: 40 * time.Second, 5: 80 * time.Second, 6: 160 * time.Second,
		7: 5 * time.Minute, 8: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		if got := lifecycle.Backoff(n); got != want {
			t.Errorf("before restart %d: %s, want %s", n, got, want)
		}
	}
}

// defaultPolicies are the policies of a gang without annotations.
var defaultPolicies = gang.RestartRules{
	RestartPolicy:  gang.RestartPolicyGang,
	MaxRestarts:    3,
	MaxDisruptions: gang.UnlimitedDisruptions,
	CleanPodPolicy: gang.CleanPodPolicyRunning,
}

// newSnapshot returns a snapshot of a gang of one workload, 10 seconds after the creation of its
// pods.
func newSnapshot(seen lifecycle.Observation, change ...func(*lifecycle.Snapshot)) lifecycle.Snapshot {
	if seen.Size == 0 && !seen.IsStatefulSet {
		seen.Size = 2
	}
	s := lifecycle.Snapshot{Members: lifecycle.NewSingleMember(seen), Now: podtest.At(10)}
	for _, c := range change {
		c(&s)
	}
	return s
}

// newTwoMemberSnapshot returns a snapshot of a gang of two workloads.
func newTwoMemberSnapshot(a, b lifecycle.Observation) lifecycle.Snapshot {
	return lifecycle.Snapshot{
		Now: podtest.At(10),
		Members: lifecycle.Members{
			{Exists: true, MinReady: a.Size, Observed: a},
			{Exists: true, MinReady: b.Size, Observed: b},
		},
	}
}

func withFailure(s *lifecycle.Snapshot) {
	s.FirstFailure = &failure.Failure{Rank: 1, Container: "trainer", Reason: "Error", ExitCode: 3, Time: podtest.At(9)}
}
func withAllPodsTerminated(s *lifecycle.Snapshot) { s.AllPodsTerminated = true }
func withPodsTerminating(s *lifecycle.Snapshot)   { s.PodsTerminating = true }
func withExternalResume(s *lifecycle.Snapshot)    { s.ResumedExternally = true }
func observedAt(n int) func(*lifecycle.Snapshot) {
	return func(s *lifecycle.Snapshot) { s.Now = podtest.At(n) }
}

// The states, policies and observations of the cases of State.Next.
var (
	rankFailure = &failure.Failure{Rank: 1, Container: "trainer", Reason: "Error", ExitCode: 3, Time: podtest.At(9)}

	withAttemptStart = lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0)}
	pendingState     = lifecycle.State{Phase: lifecycle.Pending, Bookkeeping: withAttemptStart}
	startingState    = lifecycle.State{Phase: lifecycle.Starting, Bookkeeping: withAttemptStart}
	runningState     = newState(lifecycle.Running, 0)
	lastAttemptState = newState(lifecycle.Running, 3)
	suspendedState   = newState(lifecycle.Suspended, 0)
	restartingState  = lifecycle.State{
		Phase:              lifecycle.Restarting,
		LastTransitionTime: podtest.At(8),
		Restarts:           2,
		LastRestartTime:    podtest.At(8),
		NextRestartTime:    podtest.At(18),
		FirstFailure:       rankFailure,
		Bookkeeping:        withAttemptStart,
	}
	failedState = lifecycle.State{
		Phase:              lifecycle.Failed,
		LastTransitionTime: podtest.At(5),
		Restarts:           3,
		LastRestartTime:    podtest.At(4),
		FirstFailure:       rankFailure,
		Bookkeeping:        withAttemptStart,
	}

	readyRanks     = lifecycle.Observation{ReadyPods: 2, ActivePods: 2}
	suspendedRanks = lifecycle.Observation{Suspended: true, SuspendedByRollcall: true}
	queuedRanks    = lifecycle.Observation{Suspended: true, SuspendedByRollcall: true, ManagedByQueue: true}
)

// newState returns a state that was entered 5 seconds after the start of the attempt.
func newState(phase lifecycle.Phase, restarts int32) lifecycle.State {
	return lifecycle.State{
		Phase:              phase,
		LastTransitionTime: podtest.At(5),
		Restarts:           restarts,
		Bookkeeping:        withAttemptStart,
	}
}

// stateCase is a case of State.Next.
type stateCase struct {
	state        lifecycle.State
	policies     gang.RestartRules
	snapshot     lifecycle.Snapshot
	wantPhase    lifecycle.Phase
	wantRestarts int32
	// check returns what else is wrong with the next state; empty if nothing is.
	check func(lifecycle.State) string
}

func testStateNext(t *testing.T, cases map[string]stateCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.state.Next(c.policies, c.snapshot)
			if got.Phase != c.wantPhase || got.Restarts != c.wantRestarts {
				t.Errorf("phase %s after %d restarts, want %s, %d", got.Phase, got.Restarts, c.wantPhase, c.wantRestarts)
			}
			if c.check != nil {
				if wrong := c.check(got); wrong != "" {
					t.Errorf("%s", wrong)
				}
			}
			if said := got.Describe(c.policies, c.snapshot.Members); said == "" || strings.Contains(said, "nil") {
				t.Errorf("message %q", said)
			}
		})
	}
}

func expectField[T any](what string, want T, of func(lifecycle.State) T) func(lifecycle.State) string {
	return func(s lifecycle.State) string {
		if diff := cmp.Diff(want, of(s)); diff != "" {
			return what + ": " + diff
		}
		return ""
	}
}

func nextRestartTime(s lifecycle.State) time.Time { return s.NextRestartTime }
func completedRanks(s lifecycle.State) string     { return s.CompletedRanks }
func failedPodsBaseline(s lifecycle.State) int32  { return s.FailedPodsBaseline }

// TestStateNextFailure checks the reaction to failures and to the start timeout.
func TestStateNextFailure(t *testing.T) {
	neverPolicies, podPolicies := defaultPolicies, defaultPolicies
	neverPolicies.RestartPolicy, podPolicies.RestartPolicy = gang.RestartPolicyNever, gang.RestartPolicyPod
	nonRetriablePolicies := defaultPolicies
	nonRetriablePolicies.NonRetriableExitCodes, _ = gang.ParseExitCodes("1-127") // errors are tested in package gang
	timeoutPolicies := defaultPolicies
	timeoutPolicies.StartTimeout = 8 * time.Second
	withSignal := func(s *lifecycle.Snapshot) { withFailure(s); s.FirstFailure.ExitCode = 137 }
	withEarlyFailure := func(s *lifecycle.Snapshot) { withFailure(s); s.FirstFailure.Time = podtest.At(3) }
	restartingAfterOOMKill := restartingState
	restartingAfterOOMKill.FirstFailure = &failure.Failure{Reason: "OOMKilled", ExitCode: 137, Time: podtest.At(7)}
	testStateNext(t, map[string]stateCase{
		"all ranks are ready": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(readyRanks),
			wantPhase: lifecycle.Running,
		},
		"first failure restarts the gang without back-off": {
			state:        runningState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
			check:        expectField("next restart time", podtest.At(10), nextRestartTime),
		},
		"pending gang restarts after a failure": {
			state:        pendingState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{}, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"second failure waits for back-off": {
			state: lifecycle.State{
				Phase:       lifecycle.Running,
				Restarts:    1,
				Bookkeeping: withAttemptStart,
			},
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
			check:        expectField("next restart time", podtest.At(20), nextRestartTime),
		},
		"failure after the last restart fails the gang": {
			state:        lastAttemptState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withFailure),
			wantPhase:    lifecycle.Failed,
			wantRestarts: 3,
		},
		"restart policy never fails the gang": {
			state:     runningState,
			policies:  neverPolicies,
			snapshot:  newSnapshot(readyRanks, withFailure),
			wantPhase: lifecycle.Failed,
		},
		"non-retriable exit code fails the gang": {
			state:     runningState,
			policies:  nonRetriablePolicies,
			snapshot:  newSnapshot(readyRanks, withFailure),
			wantPhase: lifecycle.Failed,
		},
		"non-retriable exit code of an init container is ignored": {
			state:    runningState,
			policies: nonRetriablePolicies,
			snapshot: newSnapshot(readyRanks, func(s *lifecycle.Snapshot) {
				withFailure(s)
				s.FirstFailure.Container, s.FirstFailure.Auxiliary = "fetch", true
			}),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"non-retriable exit code of a rank with a lost peer is ignored": {
			state:    runningState,
			policies: nonRetriablePolicies,
			snapshot: newSnapshot(readyRanks, func(s *lifecycle.Snapshot) {
				withFailure(s)
				s.FirstFailure.LostPeer = true
			}),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"non-retriable exit code of a rank that may have been terminated is ignored": {
			state:    restartingAfterOOMKill,
			policies: nonRetriablePolicies,
			snapshot: newSnapshot(suspendedRanks, func(s *lifecycle.Snapshot) {
				withEarlyFailure(s)
				s.FirstFailure.MaybeTerminated = true
			}),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"signal is retriable": {
			state:        runningState,
			policies:     nonRetriablePolicies,
			snapshot:     newSnapshot(readyRanks, withSignal),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"earlier failure with a non-retriable exit code is reported late": {
			state:        restartingAfterOOMKill,
			policies:     nonRetriablePolicies,
			snapshot:     newSnapshot(suspendedRanks, withEarlyFailure),
			wantPhase:    lifecycle.Failed,
			wantRestarts: 2,
		},
		"non-retriable exit code of a later failure is ignored": {
			state:        restartingAfterOOMKill,
			policies:     nonRetriablePolicies,
			snapshot:     newSnapshot(suspendedRanks, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
		},
		"restart policy pod ignores failures": {
			state:     runningState,
			policies:  podPolicies,
			snapshot:  newSnapshot(readyRanks, withFailure),
			wantPhase: lifecycle.Running,
		},
		"Job counts a failed pod that was not observed": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 1, FailedPods: 1}),
			wantPhase: lifecycle.Restarting,
			check:     expectField("disruptions", 1, disruptions),
		},
		"a pod that is gone comes before the failures of its peers": {
			state:    runningState,
			policies: defaultPolicies,
			snapshot: newSnapshot(
				lifecycle.Observation{ReadyPods: 1, ActivePods: 1, FailedPods: 2}, withFailure,
				func(s *lifecycle.Snapshot) { s.ObservedFailures = 1 }),
			wantPhase: lifecycle.Restarting,
			check:     expectField("disruptions", 1, disruptions),
		},
		"a pod that failed and still exists is a failure": {
			state:    runningState,
			policies: defaultPolicies,
			snapshot: newSnapshot(
				lifecycle.Observation{ReadyPods: 1, ActivePods: 1, FailedPods: 1}, withFailure,
				func(s *lifecycle.Snapshot) { s.ObservedFailures = 1 }),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"failed pods of earlier attempts are ignored": {
			state: lifecycle.State{
				Phase:       lifecycle.Running,
				Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0), FailedPodsBaseline: 1},
			},
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{ReadyPods: 2, ActivePods: 2, FailedPods: 1}),
			wantPhase: lifecycle.Running,
		},
		"ranks that succeeded restart with the others": {
			state:        runningState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2}, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"gang with a complete Job cannot restart": {
			state:    runningState,
			policies: defaultPolicies,
			snapshot: func() lifecycle.Snapshot {
				s := newTwoMemberSnapshot(
					lifecycle.Observation{Size: 2, ReadyPods: 2}, lifecycle.Observation{Size: 2, Complete: true})
				withFailure(&s)
				return s
			}(),
			wantPhase: lifecycle.Failed,
		},
		"rank that was lost before all ranks were ready is a failure": {
			state:    startingState,
			policies: defaultPolicies,
			snapshot: newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2},
				func(s *lifecycle.Snapshot) { s.LostRanks = 1 }),
			wantPhase: lifecycle.Restarting,
			check: func(s lifecycle.State) string {
				if s.FirstFailure == nil || s.FirstFailure.Reason != failure.ReasonRankLost {
					return fmt.Sprintf("first failure %v, want %s", s.FirstFailure, failure.ReasonRankLost)
				}
				return ""
			},
		},
		"lost rank of a status without completed ranks is not a failure": {
			state:    runningState,
			policies: defaultPolicies,
			snapshot: newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2},
				func(s *lifecycle.Snapshot) { s.LostRanks, s.CompletedRanks = 1, "0" }),
			wantPhase: lifecycle.Running,
			check:     expectField("completed ranks", "0", completedRanks),
		},
		"rank that was lost while no manager ran is a failure": {
			state: lifecycle.State{
				Phase:       lifecycle.Running,
				Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0), CompletedRanks: lifecycle.NoRanks},
			},
			policies: defaultPolicies,
			snapshot: newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2},
				func(s *lifecycle.Snapshot) { s.LostRanks = 1 }),
			wantPhase: lifecycle.Restarting,
			check:     expectField("completed ranks", lifecycle.NoRanks, completedRanks),
		},
		"an attempt whose ranks are all ready in its first pass records that none completed": {
			state: lifecycle.State{
				Phase:       lifecycle.Suspended,
				Bookkeeping: lifecycle.Bookkeeping{Attempt: 1, AttemptStartTime: podtest.At(0), CompletedRanks: lifecycle.NoRanks},
			},
			policies: defaultPolicies,
			snapshot: newSnapshot(readyRanks,
				func(s *lifecycle.Snapshot) { s.CompletedRanks = "1" }), // of the attempt that was suspended
			wantPhase: lifecycle.Running,
			check:     expectField("completed ranks", lifecycle.NoRanks, completedRanks),
		},
		"failures are ignored while the Job finishes": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2, Finishing: true}, withFailure),
			wantPhase: lifecycle.Running,
		},
		"failed Job fails the gang": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{Failed: true}, withFailure),
			wantPhase: lifecycle.Failed,
		},
		"start timeout expires": {
			state:        pendingState,
			policies:     timeoutPolicies,
			snapshot:     newSnapshot(lifecycle.Observation{StartTime: podtest.At(1)}),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"start timeout has not expired": {
			state:     pendingState,
			policies:  timeoutPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{StartTime: podtest.At(1)}, observedAt(7)),
			wantPhase: lifecycle.Pending,
		},
		"start timeout counts from the start of a Job that waited in a queue": {
			state:     pendingState,
			policies:  timeoutPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{StartTime: podtest.At(3600)}, observedAt(3602)),
			wantPhase: lifecycle.Pending,
		},
		"start timeout does not run before the Job has started": {
			state:     pendingState,
			policies:  timeoutPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{}, observedAt(3602)),
			wantPhase: lifecycle.Pending,
		},
		"start timeout does not apply after all ranks were ready": {
			state:     runningState,
			policies:  timeoutPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2}, observedAt(99)),
			wantPhase: lifecycle.Running,
		},
		"start timeout does not apply to a suspended gang": {
			state:     pendingState,
			policies:  timeoutPolicies,
			snapshot:  newSnapshot(lifecycle.Observation{Suspended: true}),
			wantPhase: lifecycle.Suspended,
		},
	})
}

// TestFirstFailureOfJobFailure checks that the first failed rank is recorded when a Job failed on
// its own, but not a rank whose pod the Job deleted, nor the failure of an earlier incident.
func TestFirstFailureOfJobFailure(t *testing.T) {
	failed := lifecycle.NewSingleMember(lifecycle.Observation{Size: 2, Failed: true, Message: "BackoffLimitExceeded"})
	for name, c := range map[string]struct {
		state            lifecycle.State
		firstFailure     *failure.Failure
		wantFirstFailure bool
	}{
		"failed while the gang was suspended after a restart": {
			state: lifecycle.State{
				Phase: lifecycle.Suspended, Restarts: 1, FirstFailure: &failure.Failure{Rank: 1, Reason: "Error"},
			},
		},
		"failed while the gang waits for its queue to restart": {
			state: lifecycle.State{
				Phase: lifecycle.Suspended, Restarts: 1, FirstFailure: &failure.Failure{Rank: 1, Reason: "Error"},
				Bookkeeping: lifecycle.Bookkeeping{FollowsRestart: true},
			},
			wantFirstFailure: true,
		},
		"container failed": {
			firstFailure:     &failure.Failure{Rank: 1, Container: "trainer", ExitCode: 9, Reason: "Error"},
			wantFirstFailure: true,
		},
		"Job deleted the pod itself": {firstFailure: &failure.Failure{Rank: 1, Reason: failure.ReasonPodDeleted}},
		"no pod exists":              {},
	} {
		t.Run(name, func(t *testing.T) {
			if c.state.Phase == "" {
				c.state.Phase = lifecycle.Running
			}
			s := c.state.Next(gang.RestartRules{
				RestartPolicy: gang.RestartPolicyNever,
			}, lifecycle.Snapshot{Members: failed, FirstFailure: c.firstFailure, Now: podtest.At(0)})
			if s.Phase != lifecycle.Failed || (s.FirstFailure != nil) != c.wantFirstFailure {
				t.Errorf("phase %s because of %v", s.Phase, s.FirstFailure)
			}
		})
	}
}

// TestDescribeResuming checks that a gang that Rollcall resumes is not described as suspended,
// although its members are suspended until the status is written.
func TestDescribeResuming(t *testing.T) {
	snapshot := newSnapshot(lifecycle.Observation{Suspended: true, SuspendedByRollcall: true})
	s := lifecycle.State{Phase: lifecycle.Pending, Restarts: 2}
	if got, want := s.Describe(defaultPolicies, snapshot.Members), "Restart 2 of 3 starts"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}
