package inspect

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/golden"
)

// TestPrintLive verifies the layout of a screen that is drawn again and again: what changes least is last. The
// page shows it.
func TestPrintLive(t *testing.T) {
	at := func(minutes float64) time.Time { return testTime.Add(time.Duration(minutes * float64(time.Minute))) }
	g := Gang{
		Name: "train", Namespace: "default", Framework: "pytorch", Phase: lifecycle.Running,
		Reason: gang.ReasonGangRunning, Message: "All 64 ranks have been ready", Restarts: 1, MaxRestarts: ptr.To[int32](3),
		CreationTimestamp: testTime, LastTransitionTime: ptr.To(at(24)), Size: 64, Ready: 63, minReady: 64,
		FirstFailure: &failure.Failure{
			Rank: 7, Pod: "train-7-mdvtf", Node: "node-b", Container: "trainer", ExitCode: 1, Reason: "Error",
			Message: "RuntimeError: CUDA error: uncorrectable ECC error encountered", Time: at(20),
		},
		Members: []Member{{Kind: gang.Job, Name: "train", Role: "worker", Size: 64, Ready: 63}},
		Ranks:   newRanks(strings.Repeat("#", 40) + "o" + strings.Repeat("#", 23)),
		state: lifecycle.State{
			LastRestartTime: at(20), LastTransitionTime: at(24), Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: at(21)},
			Seconds: lifecycle.Seconds{Starting: 60, RanBeforeFailure: 1140, Restarting: 240},
		},
	}
	g.Ranks[40].Pod, g.Ranks[40].Node, g.Ranks[40].Reason = "train-40-x2x9k", "node-f", "not ready"
	var out strings.Builder
	out.WriteString("$ rollcall status train --watch\n")
	PrintGang(&out, PrintOptions{Now: at(32), Width: 79, Live: true}, g)
	golden.CheckBlock(t, "../../docs/tasks/see-a-gang.md", "$ rollcall status train --watch\n", out.String())
	out.Reset()
	PrintGang(&out, PrintOptions{Now: at(32), Width: 30, Live: true}, g)
	want := "\n      0  ########## ##########\n     20  ########## ##########\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("a narrow terminal has other rows than 20 ranks:\n%s", out.String())
	}
}
