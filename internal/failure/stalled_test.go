package failure_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// Stacks as faulthandler of Python 3.13 prints them.
const (
	stackInAllReduce = `Fatal Python error: Aborted

Thread 0x00007f5f3dffb6c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Current thread 0x00007f8b1c0fb740 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 2810 in all_reduce
  File "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", line 81 in wrapper
  File "/program/train.py", line 9 in train
  File "/program/train.py", line 13 in <module>

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
`
	stackInLoader = `Current thread 0x00007f8b1c0fb740 (most recent call first):
  File "/program/train.py", line 5 in load_batch
  File "/program/train.py", line 8 in train
  File "/program/train.py", line 13 in <module>
`
)

// stalled returns a change by which a rank wrote its progress file at one time, and the probe found the stall a minute
// later. The container exited 5 seconds after that.
func stalled(lastWrite int, stack string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		report := stallReport(lastWrite + 60)
		podtest.Terminated(137, lastWrite+65, false)(p)
		p.Status.ContainerStatuses[0].State.Terminated.Message = report + stack + report
	}
}

// stallReport returns the report of a stall that was found at a time, a minute after the last write.
func stallReport(found int) string {
	return fmt.Sprintf("rollcall: stalled: /tmp/progress was not written since %s, found at %s\n",
		podtest.At(found-60).Format(time.RFC3339Nano), podtest.At(found).Format(time.RFC3339Nano))
}

// TestStalledRank checks which of several stalled ranks is the first failure.
func TestStalledRank(t *testing.T) {
	for name, c := range map[string]struct {
		ranks []func(*corev1.Pod)
		want  int32
	}{
		"one rank is at another position": {
			ranks: []func(*corev1.Pod){
				stalled(10, stackInAllReduce), stalled(11, stackInAllReduce), stalled(12, stackInLoader),
			},
			want: 2,
		},
		"most ranks have no stack": {
			ranks: []func(*corev1.Pod){stalled(10, ""), stalled(11, stackInAllReduce), stalled(11, stackInAllReduce)},
			want:  0,
		},
		"all ranks are at the same position": {
			ranks: []func(*corev1.Pod){
				stalled(12, stackInAllReduce), stalled(11, stackInAllReduce), stalled(12, stackInAllReduce),
			},
			want: 1,
		},
		"another rank failed before": {
			ranks: []func(*corev1.Pod){stalled(10, stackInAllReduce), podtest.Terminated(1, 20, false)},
			want:  1,
		},
		"a peer lost the terminated rank": {
			ranks: []func(*corev1.Pod){podtest.Terminated(1, 72, false), stalled(10, stackInLoader)},
			want:  1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for i, change := range c.ranks {
				pods = append(pods, podtest.RankPod(i, change))
			}
			if f := failure.First(pods, 0, failure.Context{}); f == nil || f.Rank != c.want {
				t.Errorf("the first failure is %+v, want rank %d", f, c.want)
			}
		})
	}
}

// TestStalledFailure checks what a failure contains about a stall.
func TestStalledFailure(t *testing.T) {
	pods := []corev1.Pod{
		podtest.RankPod(0, stalled(10, stackInAllReduce)), podtest.RankPod(1, stalled(12, stackInAllReduce)),
	}
	want := &failure.Failure{
		Pod: "train-0-x", Node: "node-a", Container: "trainer", ExitCode: 137, Reason: failure.ReasonStalled,
		StalledRanks: 2, Time: podtest.At(70), DetectedTime: podtest.At(10),
		Position: `File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 2810 in all_reduce, ` +
			`File "/program/train.py", line 9 in train`,
		Message: "did not write /tmp/progress for 1m0s, and was in\n" +
			`File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 2810 in all_reduce` + "\n" +
			`File "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", line 81 in wrapper` + "\n" +
			`File "/program/train.py", line 9 in train` + "\n" + `File "/program/train.py", line 13 in <module>`,
	}
	got := failure.First(pods, 0, failure.Context{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first failure (-want +got):\n%s", diff)
	}
	if got.IsDisruption() {
		t.Error("a stall is a disruption")
	}
	hidden := failure.First(pods, 0, failure.Context{OmitOutput: true})
	if hidden.Message+hidden.Position != "" || hidden.Reason != failure.ReasonStalled {
		t.Errorf("without output, the first failure is %+v", hidden)
	}
}

// TestStalledRankWithExitCode0 checks that a stalled rank failed although its program handled SIGTERM.
func TestStalledRankWithExitCode0(t *testing.T) {
	pod := podtest.RankPod(0, stalled(10, ""))
	status := &pod.Status.ContainerStatuses[0]
	status.LastTerminationState = status.State
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	status.LastTerminationState.Terminated.ExitCode = 0
	if f := failure.First([]corev1.Pod{pod}, 0, failure.Context{}); f == nil || f.Reason != failure.ReasonStalled {
		t.Errorf("the failure is %+v", f)
	}
}

// TestSilentStall checks that a rank that handled SIGTERM after its probe had failed stalled, and that it is the rank
// for which its peers wait: they did not handle the signal.
func TestSilentStall(t *testing.T) {
	silent := func(p *corev1.Pod) { podtest.Terminated(0, 75, true)(p) }
	pods := []corev1.Pod{
		podtest.RankPod(0, stalled(10, stackInAllReduce)), podtest.RankPod(1, silent),
		podtest.RankPod(2, stalled(10, stackInAllReduce)),
	}
	c := failure.Context{TerminatesStalled: true, TrainingContainers: []string{"trainer"}}
	if f := failure.First(pods, 0, c); f == nil || f.Rank != 1 || f.StalledRanks != 3 || f.IsDisruption() {
		t.Errorf("the first failure is %+v", f)
	}
	if f := failure.First(pods[1:2], 0, failure.Context{}); f != nil {
		t.Errorf("without a probe of Rollcall, the failure is %+v", f)
	}
}

// TestStalledRankTerminatedWithGang checks that the ranks that stalled count although the gang was terminated before
// their containers exited.
func TestStalledRankTerminatedWithGang(t *testing.T) {
	var pods []corev1.Pod
	for i, stack := range []string{stackInAllReduce, stackInAllReduce, stackInLoader} {
		pods = append(pods, podtest.RankPod(i, stalled(10, stack)))
		if i > 0 {
			podtest.Deleted(72)(&pods[i])
		}
	}
	c := failure.Context{Terminating: true, TerminationStartTime: podtest.At(71)}
	partial := failure.First(pods[:1], 0, c)
	complete := failure.First(pods, 0, c)
	if complete.Rank != 2 || complete.MaybeTerminated || complete.StalledRanks != 3 {
		t.Errorf("the first failure is %+v", complete)
	}
	if first := failure.EarlierOf(partial, complete); first != complete {
		t.Errorf("of %s and %s, the first is %s", partial, complete, first)
	}
}

// TestForgedStall checks that a text of the program that is not a report of the probe does not count.
func TestForgedStall(t *testing.T) {
	const start = "rollcall: stalled: f was not written since 2000-01-01T00:00:00Z, found at "
	for name, text := range map[string]string{
		"no times":          "rollcall: stalled: the queue\n",
		"no valid times":    "rollcall: stalled: f was not written since a, found at b\n",
		"found after exit":  start + "9999-01-01T00:00:00Z\n",
		"found long before": start + "2000-01-01T00:00:01Z\n",
	} {
		t.Run(name, func(t *testing.T) {
			pod := podtest.RankPod(0, podtest.Terminated(1, 20, false))
			pod.Status.ContainerStatuses[0].State.Terminated.Message = text
			f := failure.First([]corev1.Pod{pod}, 0, failure.Context{})
			if f == nil || f.Reason != "Error" || !strings.Contains(f.Message, "stalled") {
				t.Errorf("the failure is %+v", f)
			}
		})
	}
}

// TestMoreStalledRanksDiffer checks that a failure is another one as soon as more ranks are known to have stalled.
// Without a write, the ranks whose stacks remain longest would replace it.
func TestMoreStalledRanksDiffer(t *testing.T) {
	one := &failure.Failure{Rank: 2, Reason: failure.ReasonStalled, StalledRanks: 1}
	four, others := *one, failure.Failure{Rank: 0, Reason: failure.ReasonStalled, StalledRanks: 3}
	four.StalledRanks = 4
	if one.Equal(&four) {
		t.Error("the failure would not be written again")
	}
	if first := failure.EarlierOf(&four, &others); first.Rank != 2 {
		t.Errorf("3 ranks that are seen later replace rank 2 by rank %d", first.Rank)
	}
}
