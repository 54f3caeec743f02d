package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

func exitError(rank int32, seconds int) *failure.Failure {
	return &failure.Failure{Rank: rank, Container: "trainer", Reason: "Error", ExitCode: 1, Time: podtest.At(seconds)}
}

func outOfMemory(rank int32, seconds int) *failure.Failure {
	return &failure.Failure{
		Rank:      rank,
		Container: "trainer",
		Reason:    "OOMKilled",
		ExitCode:  137,
		Time:      podtest.At(seconds),
	}
}

func maybeTerminated(f *failure.Failure) *failure.Failure { f.MaybeTerminated = true; return f }

// TestFirstFailureReportedLate checks that an earlier failure that is reported while the gang
// terminates replaces the first failure.
func TestFirstFailureReportedLate(t *testing.T) {
	suspended := lifecycle.Observation{Suspended: true, SuspendedByRollcall: true}
	for name, c := range map[string]struct {
		phase    lifecycle.Phase
		reported *failure.Failure
		want     *failure.Failure
	}{
		"earlier failure is reported late": {
			phase:    lifecycle.Restarting,
			reported: outOfMemory(0, 9),
			want:     outOfMemory(0, 9),
		},
		"later failure is reported late": {
			phase:    lifecycle.Restarting,
			reported: exitError(0, 10),
			want:     exitError(2, 9),
		},
		"no other failure is reported": {phase: lifecycle.Restarting, want: exitError(2, 9)},
		"rank that may have been terminated is reported late": {
			phase:    lifecycle.Restarting,
			reported: maybeTerminated(exitError(0, 9)),
			want:     exitError(2, 9),
		},
		"earlier failure is reported after the gang failed": {
			phase:    lifecycle.Failed,
			reported: outOfMemory(0, 9),
			want:     outOfMemory(0, 9),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := lifecycle.State{
				Phase:              c.phase,
				LastTransitionTime: podtest.At(9),
				Restarts:           1,
				LastRestartTime:    podtest.At(9),
				FirstFailure:       exitError(2, 9),
				Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0)},
			}
			see := newSnapshot(suspended, func(s *lifecycle.Snapshot) { s.FirstFailure = c.reported })
			got := s.Next(defaultPolicies, see)
			if diff := cmp.Diff(c.want, got.FirstFailure); diff != "" || got.Phase != c.phase || got.Restarts != 1 {
				t.Errorf("phase %s after %d restarts, first failure (-want +got):\n%s", got.Phase, got.Restarts, diff)
			}
		})
	}
}

// TestFirstFailureBesideDeletedMember checks that the exits of ranks whose peers were deleted do not replace a lost
// node.
func TestFirstFailureBesideDeletedMember(t *testing.T) {
	for name, c := range map[string]struct {
		members      lifecycle.Members
		wantRestarts int32
	}{
		"the member of the peers exists":      {members: newIdentifiedMembers("m", "w"), wantRestarts: 1},
		"the member of the peers was deleted": {members: newIdentifiedMembers("", "w")},
	} {
		t.Run(name, func(t *testing.T) {
			lost := &failure.Failure{Rank: 1, Pod: "train-worker-0", Reason: failure.ReasonNodeLost, Time: podtest.At(100)}
			s := lifecycle.State{
				Phase: lifecycle.Restarting, Disruptions: 1, FirstFailure: lost, LastTransitionTime: podtest.At(100),
				Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0), MemberUIDs: []types.UID{"m", "w"}},
			}
			got := s.Next(defaultPolicies, lifecycle.Snapshot{
				Members: c.members, FirstFailure: exitError(1, 35), Now: podtest.At(101),
			})
			if got.Restarts != c.wantRestarts || got.Restarts+got.Disruptions != 1 {
				t.Errorf("%d restarts and %d disruptions, want %d restarts", got.Restarts, got.Disruptions, c.wantRestarts)
			}
		})
	}
}

// TestFirstFailureOfRestartingJob checks that a Job that fails while its gang restarts failed
// because of the failure for which the gang restarts.
func TestFirstFailureOfRestartingJob(t *testing.T) {
	failed := lifecycle.Observation{Failed: true}
	for name, c := range map[string]struct {
		phase    lifecycle.Phase
		reported *failure.Failure
		want     *failure.Failure
	}{
		"Job fails because of the failure for which the gang restarts": {
			phase:    lifecycle.Restarting,
			reported: maybeTerminated(exitError(0, 9)),
			want:     exitError(2, 9),
		},
		"failure of an earlier attempt is replaced": {
			phase:    lifecycle.Running,
			reported: exitError(0, 30),
			want:     exitError(0, 30),
		},
		"Job fails by its deadline long after the restart": {phase: lifecycle.Running},
	} {
		t.Run(name, func(t *testing.T) {
			s := lifecycle.State{
				Phase:              c.phase,
				LastTransitionTime: podtest.At(9),
				Restarts:           1,
				LastRestartTime:    podtest.At(9),
				FirstFailure:       exitError(2, 9),
				Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: podtest.At(0)},
			}
			got := s.Next(defaultPolicies, newSnapshot(failed, func(s *lifecycle.Snapshot) { s.FirstFailure = c.reported }))
			if diff := cmp.Diff(c.want, got.FirstFailure); diff != "" || got.Phase != lifecycle.Failed {
				t.Errorf("phase %s, first failure (-want +got):\n%s", got.Phase, diff)
			}
		})
	}
}
