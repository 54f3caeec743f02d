package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// newFailure returns a failure of rank 0 without a container, some seconds after the start of the attempt.
func newFailure(reason string, seconds int) *failure.Failure {
	return &failure.Failure{Rank: 0, Pod: "train-0", Reason: reason, Time: podtest.At(seconds)}
}

func withDisruption(s *lifecycle.Snapshot) { s.FirstFailure = newFailure("EvictionByEvictionAPI", 9) }
func disruptions(s lifecycle.State) int32  { return s.Disruptions }

// newRestartingState returns a state of a gang that restarts because of a failure.
func newRestartingState(f *failure.Failure, restarts, disruptions int32) lifecycle.State {
	s := restartingState
	s.FirstFailure, s.Restarts, s.Disruptions, s.DisruptionStreak = f, restarts, disruptions, disruptions
	return s
}

// TestStateNextDisruption checks that disruptions have a count, a limit and a back-off of their own.
func TestStateNextDisruption(t *testing.T) {
	neverPolicies, limitedPolicies := defaultPolicies, defaultPolicies
	neverPolicies.RestartPolicy, limitedPolicies.MaxDisruptions = gang.RestartPolicyNever, 2
	disruptedTwice := lastAttemptState
	disruptedTwice.Disruptions, disruptedTwice.DisruptionStreak = 2, 2
	ranLong := disruptedTwice
	ranLong.LastTransitionTime = podtest.At(10).Add(-5 * time.Minute)
	earlyExit := func(s *lifecycle.Snapshot) { withFailure(s); s.FirstFailure.Time = podtest.At(1) }
	earlyDisruption := func(s *lifecycle.Snapshot) { s.FirstFailure = newFailure(failure.ReasonPodDeleted, 3) }
	unobserved := newFailure(failure.ReasonUnobserved, 7)
	unobserved.Rank, unobserved.Pod = -1, ""
	testStateNext(t, map[string]stateCase{
		"a disruption uses up no restart": {
			state:        lastAttemptState,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withDisruption),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 3,
			check:        expectField("disruptions", 1, disruptions),
		},
		"the first disruption has no back-off": {
			state:     runningState,
			policies:  defaultPolicies,
			snapshot:  newSnapshot(readyRanks, withDisruption),
			wantPhase: lifecycle.Restarting,
			check:     expectField("next restart time", podtest.At(10), nextRestartTime),
		},
		"a disruption soon after two others has a back-off": {
			state:        disruptedTwice,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withDisruption),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 3,
			check:        expectField("next restart time", podtest.At(30), nextRestartTime),
		},
		"an attempt that ran for five minutes resets the back-off": {
			state:        ranLong,
			policies:     defaultPolicies,
			snapshot:     newSnapshot(readyRanks, withDisruption),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 3,
			check:        expectField("next restart time", podtest.At(10), nextRestartTime),
		},
		"the last disruption fails the gang": {
			state:        disruptedTwice,
			policies:     limitedPolicies,
			snapshot:     newSnapshot(readyRanks, withDisruption),
			wantPhase:    lifecycle.Failed,
			wantRestarts: 3,
			check: expectField("message",
				"The gang failed after 2 disruptions: rank 0 (pod train-0): EvictionByEvictionAPI",
				func(s lifecycle.State) string { return s.Describe(limitedPolicies, nil) }),
		},
		"a failure after the last disruption restarts the gang": {
			state: lifecycle.State{
				Phase: lifecycle.Running, Disruptions: 2, Bookkeeping: withAttemptStart,
			},
			policies:     limitedPolicies,
			snapshot:     newSnapshot(readyRanks, withFailure),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
		},
		"a disruption fails a gang that never restarts": {
			state:     runningState,
			policies:  neverPolicies,
			snapshot:  newSnapshot(readyRanks, withDisruption),
			wantPhase: lifecycle.Failed,
		},
		"a disruption that was reported late takes the place of the exit that followed": {
			state:        newRestartingState(rankFailure, 3, 1),
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, earlyDisruption),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
			check:        expectField("disruptions", 2, disruptions),
		},
		"an exit that was reported late takes the place of the disruption that followed": {
			state:        newRestartingState(newFailure(failure.ReasonPodDeleted, 7), 1, 1),
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, earlyExit),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 2,
			check:        expectField("next restart time", podtest.At(18), nextRestartTime),
		},
		"an exit that was reported late fails a gang without restarts left": {
			state:        newRestartingState(newFailure(failure.ReasonPodDeleted, 7), 3, 1),
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, earlyExit),
			wantPhase:    lifecycle.Failed,
			wantRestarts: 3,
			check:        expectField("disruptions", 0, disruptions),
		},
		"an exit does not take the place of a pod that nobody observed": {
			state:        newRestartingState(unobserved, 1, 1),
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, earlyExit),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
			check:        expectField("disruptions", 1, disruptions),
		},
		"a disruption that seems to be earlier does not take the place of a pod that nobody observed": {
			state:        newRestartingState(unobserved, 1, 1),
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, earlyDisruption),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 1,
			check: expectField("reason", failure.ReasonUnobserved,
				func(s lifecycle.State) string { return s.FirstFailure.Reason }),
		},
		"a disruption that an earlier build counted as a restart stays a restart": {
			state:        newRestartingState(newFailure(failure.ReasonPodDeleted, 7), 3, 0),
			policies:     defaultPolicies,
			snapshot:     newSnapshot(suspendedRanks, earlyExit),
			wantPhase:    lifecycle.Restarting,
			wantRestarts: 3,
		},
	})
}

// TestStateNextFailedStart checks that a rank that is lost at the start of an attempt belongs to the
// incident or to the suspension before the attempt.
func TestStateNextFailedStart(t *testing.T) {
	lostRank := newSnapshot(lifecycle.Observation{ReadyPods: 1, ActivePods: 2},
		func(s *lifecycle.Snapshot) { s.LostRanks = 1 })
	afterDisruption := lifecycle.State{
		Phase: lifecycle.Pending, Disruptions: 1, LastRestartTime: podtest.At(0),
		FirstFailure: newFailure(failure.ReasonPodDeleted, 1),
		Bookkeeping:  lifecycle.Bookkeeping{Attempt: 1, DisruptionStreak: 1, AttemptStartTime: podtest.At(5)},
	}
	afterSuspension := afterDisruption
	afterSuspension.Disruptions, afterSuspension.FirstFailure = 0, nil
	firstAttempt := lifecycle.State{Phase: lifecycle.Pending, Bookkeeping: withAttemptStart}
	for name, c := range map[string]struct {
		state           lifecycle.State
		wantDisruptions int32
		wantReason      string
		wantMessage     string
	}{
		"after a disruption": {
			state: afterDisruption, wantDisruptions: 1, wantReason: failure.ReasonPodDeleted,
			wantMessage: "Disruption 1: rank 0 (pod train-0): PodDeleted",
		},
		"after a suspension": {
			state: afterSuspension, wantReason: failure.ReasonRankLost,
			wantMessage: "The start is repeated: RankLost: 1 rank completed when its pod was deleted",
		},
		"in the first attempt": {
			state: firstAttempt, wantDisruptions: 1, wantReason: failure.ReasonRankLost,
			wantMessage: "Disruption 1: RankLost: 1 rank completed when its pod was deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.state.Next(defaultPolicies, lostRank)
			if got.Phase != lifecycle.Restarting || got.Attempt != c.state.Attempt+1 || got.FirstFailure.Reason != c.wantReason {
				t.Errorf("phase %s, attempt %d after %v", got.Phase, got.Attempt, got.FirstFailure)
			}
			if got.Restarts != 0 || got.Disruptions != c.wantDisruptions || !got.NextRestartTime.Equal(lostRank.Now) {
				t.Errorf("%d restarts, %d disruptions, next at %s", got.Restarts, got.Disruptions, got.NextRestartTime)
			}
			if diff := cmp.Diff(c.wantMessage, got.Describe(defaultPolicies, lostRank.Members)); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEarlierPodIsCountedLate checks that a failed pod that a Job counts before an attempt has pods is not a failure of
// the attempt.
func TestEarlierPodIsCountedLate(t *testing.T) {
	for name, c := range map[string]struct {
		pods int32
		want lifecycle.Phase
	}{
		"the attempt has no pods": {want: lifecycle.Pending},
		"the attempt has pods":    {pods: 1, want: lifecycle.Restarting},
	} {
		s := lifecycle.State{Phase: lifecycle.Pending, Disruptions: 1, Bookkeeping: lifecycle.Bookkeeping{
			Attempt: 1, AttemptStartTime: podtest.At(0), FailedPodsBaseline: 1,
		}}
		snapshot := newSnapshot(lifecycle.Observation{Size: 2, FailedPods: 2}, func(s *lifecycle.Snapshot) {
			s.OriginalPods = c.pods
		})
		if next := s.Next(defaultPolicies, snapshot); next.Phase != c.want {
			t.Errorf("%s: the phase is %s (%v), want %s", name, next.Phase, next.FirstFailure, c.want)
		}
	}
}
