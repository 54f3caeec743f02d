package inspect

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/progress"
	"rollcall.training/internal/testing/golden"
)

// shownAt returns a time of the day on which the outputs of the pages were recorded.
func shownAt(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-11-26 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

// newShownGang returns a gang of one Job. Each character of ranks is the cell of its state.
func newShownGang(namespace, name string, phase lifecycle.Phase, since, message, ranks string) Gang {
	member := Member{
		Kind: gang.Job, Name: name, Role: "worker", Size: int32(len(ranks)),
		Ready: int32(strings.Count(ranks, "#")), Succeeded: int32(strings.Count(ranks, "+")),
	}
	return Gang{
		Namespace: namespace, Name: name, Framework: "pytorch", Phase: phase, Message: message,
		LastTransitionTime: ptr.To(shownAt(since)), MaxRestarts: ptr.To[int32](3),
		Size: member.Size, Ready: member.Ready, Succeeded: member.Succeeded,
		Members: []Member{member}, Ranks: newRanks(ranks),
	}
}

// TestShownStatus verifies that the task pages show what the command prints for the gangs of which they recorded the
// status.
func TestShownStatus(t *testing.T) {
	step := newShownGang("default", "train", lifecycle.Running, "12:24:00", "All 4 ranks have been ready", "####")
	step.Progress = &progress.Progress{
		LastTime: shownAt("12:31:55"), Step: ptr.To(1200.0), Total: ptr.To(5000.0), RemainingSeconds: ptr.To[int64](34 * 60),
	}
	preflight := newShownGang("default", "preflight", lifecycle.Succeeded, "02:26:45", "The gang succeeded", "+++")
	preflight.Disruptions = 1
	preflight.state.Seconds = lifecycle.Seconds{Ran: 10, Starting: 13, Restarting: 42}
	preflight.FailedNodes = []lifecycle.FailedNode{
		{Name: "rollcall-test-3", Reason: "PreflightFailed", LastFailureTime: shownAt("02:25:53"), Avoided: true},
	}
	preflight.FirstFailure = &failure.Failure{
		Rank: 2, Pod: "preflight-2-sjkrq", Node: "rollcall-test-3", Reason: "PreflightFailed", Container: "check-network",
		ExitCode: 20, Time: shownAt("02:25:53"),
		Message: "rank 2: 2.7 MB/s, 0.0 MB/s, 2.6 MB/s\nthe network of the node rollcall-test-3 is slow",
	}
	avoids := newShownGang("research", "train", lifecycle.Running, "15:11:33", "All 2 ranks have been ready", "##")
	avoids.Restarts = 2
	avoids.state.Seconds = lifecycle.Seconds{Ran: 16, Starting: 1, Restarting: 13, RanBeforeFailure: 1}
	avoids.FailedNodes = []lifecycle.FailedNode{
		{Name: "node-1", Failures: 2, LastFailureTime: shownAt("15:11:22"), Avoided: true},
	}
	avoids.FirstFailure = &failure.Failure{
		Rank: 1, Pod: "train-1-n7x69", Node: "node-1", Reason: "Error", Container: "trainer", ExitCode: 3,
		Time: shownAt("15:11:22"),
	}
	hangs := newShownGang("hang", "train", lifecycle.Restarting, "16:09:57", "", "....")
	hangs.Restarts = 1
	hangs.FirstFailure = &failure.Failure{
		Rank: 2, Pod: "train-2-t7mjg", Node: "rollcall-test", Reason: failure.ReasonStalled, Container: "trainer",
		ExitCode: 137, Time: shownAt("16:09:49"),
		Message: "did not write /tmp/progress for 12s, and was in\nFile \"/program/train.py\", line 5 in load_batch\n" +
			"File \"/program/train.py\", line 8 in train\nFile \"/program/train.py\", line 13 in <module>",
	}
	slow := newShownGang("hang", "slow", lifecycle.Running, "16:09:04",
		"Ranks 0-3 did not write /tmp/progress for 10s", "oooo")
	for i, pod := range []string{"slow-0-4xr9b", "slow-1-kd2c7", "slow-2-w8n5q", "slow-3-zt6lp"} {
		slow.Ranks[i].Pod, slow.Ranks[i].Node = pod, "rollcall-test"
		slow.Ranks[i].Reason = "Stalled: did not write /tmp/progress for 10s"
	}
	hangs.Message = "Restart 1 of 3: " + hangs.FirstFailure.String()
	for name, c := range map[string]struct {
		page, now string
		gang      Gang
	}{
		"the step of a gang":              {page: "see-a-gang", now: "12:32:00", gang: step},
		"a node failed its check":         {page: "check-nodes", now: "02:26:51", gang: preflight},
		"a gang avoids a node":            {page: "configure-restarts", now: "15:11:49", gang: avoids},
		"a stalled gang restarts":         {page: "when-training-hangs", now: "16:10:06", gang: hangs},
		"a stalled gang is only reported": {page: "when-training-hangs", now: "16:09:50", gang: slow},
	} {
		t.Run(name, func(t *testing.T) {
			command := "$ rollcall status " + c.gang.Name + "\n"
			var out strings.Builder
			out.WriteString(command)
			PrintGang(&out, PrintOptions{Now: shownAt(c.now), Width: 120}, c.gang)
			golden.CheckBlock(t, "../../docs/tasks/"+c.page+".md", command, out.String())
		})
	}
}
