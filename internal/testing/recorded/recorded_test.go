package recorded_test

import (
	"testing"

	"rollcall.training/internal/injection"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/recorded"
)

// TestReadStatus checks that this build reads the record and the status of each earlier build. The names of
// the gangs contain their state.
func TestReadStatus(t *testing.T) {
	type state struct {
		phase    lifecycle.Phase
		restarts int32
		exitCode int32 // of the first failure; 0 means that there is none
		backoff  bool
	}
	running := state{phase: lifecycle.Running}
	restarting := state{phase: lifecycle.Restarting, restarts: 2, exitCode: 3, backoff: true}
	want := map[string]state{
		"job": running, "set": running, "mpi-launcher": running, "mpi-worker": running,
		"suspended": {phase: lifecycle.Suspended}, "queued": {phase: lifecycle.Suspended},
		"succeeded": {phase: lifecycle.Succeeded}, "failed": {phase: lifecycle.Failed, exitCode: 3},
		"restarting": restarting, "restarting-set": restarting,
		"restarting-pair-master": restarting, "restarting-pair-worker": restarting,
	}
	for _, build := range readBuilds(t) {
		t.Run(build.Commit, func(t *testing.T) {
			if len(build.Workloads) != len(want) {
				t.Errorf("%d workloads, want %d", len(build.Workloads), len(want))
			}
			for _, w := range build.Workloads {
				name := w.Meta().Name
				if record, err := injection.ReadRecord(w); err != nil || record == nil || record.Build == "" {
					t.Errorf("%s has the record %+v, %v", name, record, err)
				}
				status := lifecycle.ReadStatus(w)
				got := state{phase: status.Phase, restarts: status.Restarts, backoff: !status.NextRestartTime.IsZero()}
				if status.FirstFailure != nil {
					got.exitCode = status.FirstFailure.ExitCode
				}
				if got != want[name] || lifecycle.ReadPhase(w) != status.Phase {
					t.Errorf("%s has the status %+v, want %+v", name, got, want[name])
				}
				if status.SuspendedByRollcall != want[name].backoff {
					t.Errorf("%s is suspended by Rollcall: %t", name, status.SuspendedByRollcall)
				}
			}
		})
	}
}

func readBuilds(t *testing.T) []recorded.Build {
	t.Helper()
	builds, err := recorded.Builds()
	if err != nil {
		t.Fatal(err)
	}
	if len(builds) == 0 {
		t.Fatal("there are no recorded builds")
	}
	return builds
}
