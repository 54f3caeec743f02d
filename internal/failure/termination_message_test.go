package failure_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// torchrunOutput returns what torchrun of PyTorch 2.6 prints after a worker failed, or after it
// was terminated. The output of the worker comes first.
func torchrunOutput(workerOutput, loggedTime, verdict string) string {
	return workerOutput +
		"W1120 " + loggedTime + "000 1 torch/distributed/elastic/multiprocessing/api.py:897] " +
		"Sending process 12 closing signal SIGTERM\n" +
		"E1120 " + loggedTime + "999 1 torch/distributed/elastic/multiprocessing/api.py:869] failed " +
		"(exitcode: 1) local_rank: 1 (pid: 10) of binary: /usr/bin/python3\n" +
		"Traceback (most recent call last):\n  File \"/usr/bin/torchrun\", line 33, in <module>\n    sys.exit(main())\n" +
		strings.Repeat(
			"  File \"/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py\", line 138, in __call__\n",
			10,
		) + verdict
}

const childFailedError = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" +
	"train.py FAILED\n  exitcode  : 1 (pid: 10)\n"

// TestDetectedTime checks when torchrun detected the failure of a worker.
func TestDetectedTime(t *testing.T) {
	for name, c := range map[string]struct {
		message    string
		wantOffset time.Duration // from the second of the exit; 0 for no detected time
	}{
		"report of the same second": {
			message:    torchrunOutput("", "03:04:25.193", childFailedError),
			wantOffset: 193 * time.Millisecond,
		},
		"torchrun waited for its other workers": {
			message:    torchrunOutput("", "03:04:01.500", childFailedError),
			wantOffset: -23500 * time.Millisecond,
		},
		"report of the previous minute": {
			message:    torchrunOutput("", "03:03:59.999", childFailedError),
			wantOffset: -25001 * time.Millisecond,
		},
		"container with another time zone": {
			message:    torchrunOutput("", "11:34:25.193", childFailedError),
			wantOffset: 193 * time.Millisecond,
		},
		"worker output between two log lines": {
			message: torchrunOutput(
				"E1120 03:04:02.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed\nagain\n",
				"03:04:25.193",
				childFailedError,
			),
			wantOffset: 193 * time.Millisecond,
		},
		"warning of another logger": {
			message: "W1120 03:04:07.193000 1 torch/distributed/run.py:792] Setting OMP_NUM_THREADS\n",
		},
		"worker failure from which torchrun recovered": {
			message: "W1120 03:04:07.193000 1 torch/distributed/elastic/multiprocessing/api.py:897] Sending " +
				"process\nValueError: x\n",
		},
		"program without torchrun": {message: "ValueError: x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure.First([]corev1.Pod{
				podtest.RankPod(0, withTerminationMessage(c.message)),
			}, 0, failure.Context{Attempt: 1})
			want := time.Time{}
			if c.wantOffset != 0 {
				want = podtest.At(20).Add(c.wantOffset)
			}
			if !got.DetectedTime.Equal(want) || !got.Time.Equal(podtest.At(20)) {
				t.Errorf("detected at %s, want %s; failed at %s", got.DetectedTime, want, got.Time)
			}
		})
	}
}

// TestFirstTorchrunFailure checks that the pod that detected its failure first is the first of
// several torchrun pods, and that a terminated pod did not fail.
func TestFirstTorchrunFailure(t *testing.T) {
	pods := []corev1.Pod{
		podtest.RankPod(0, withTerminationMessage(torchrunOutput("", "03:04:25.764", childFailedError))),
		podtest.RankPod(1, withTerminationMessage(torchrunOutput("", "03:04:25.193", childFailedError))),
		podtest.RankPod(2, withTerminationMessage(torchrunOutput("", "03:04:25.350", childFailedError))),
	}
	stopping := failure.Context{Attempt: 1, Terminating: true, TerminationStartTime: podtest.At(20)}
	if got := failure.First(pods, 0, stopping); got.Rank != 1 {
		t.Errorf("first failure: %+v", got)
	}
	signal := func(p *corev1.Pod) {
		podtest.Terminated(1, 20, false)(p)
		p.Status.ContainerStatuses[0].State.Terminated.Message = torchrunOutput(
			"",
			"03:04:25.100",
			"torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15\n",
		)
	}
	terminated := podtest.RankPod(0, func(p *corev1.Pod) { signal(p); podtest.Deleted(20)(p) })
	if got := failure.First([]corev1.Pod{terminated}, 0, stopping); got != nil {
		t.Errorf("terminated pod failed: %+v", got)
	}
	if got := failure.First(
		[]corev1.Pod{terminated},
		0,
		failure.Context{Attempt: 1},
	); got == nil || got.Reason != failure.ReasonPodDeleted {
		t.Errorf("pod that was deleted externally: %+v", got)
	}
	if got := failure.First(
		[]corev1.Pod{podtest.RankPod(0, signal)},
		0,
		failure.Context{Attempt: 1},
	); got == nil || !got.MaybeTerminated {
		t.Errorf("container that was terminated externally: %+v", got)
	}
}

// TestLostPeerAmongWorkers checks that a lost peer does not count if it may be another worker of
// the same pod.
func TestLostPeerAmongWorkers(t *testing.T) {
	const lost = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer\n"
	const failed = "E1120 03:04:25.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] " +
		"failed (exitcode: 1) local_rank: 0 (pid: 10)\n"
	const trace = "Traceback (most recent call last):\n  File \"/usr/bin/torchrun\", line 33, in <module>\n"
	for name, c := range map[string]struct {
		message string
		want    bool
	}{
		"pod with one worker": {message: lost + failed + trace + "Failures:\n  <NO_OTHER_FAILURES>\n", want: true},
		"torchrun terminated the other workers": {
			message: torchrunOutput(lost, "03:04:25.193", "Failures:\n  <NO_OTHER_FAILURES>\n"),
		},
		"other workers failed as well": {message: lost + failed + trace + "Failures:\n[1]:\n"},
	} {
		if got := failure.First([]corev1.Pod{
			podtest.RankPod(0, withTerminationMessage(c.message)),
		}, 0, failure.Context{Attempt: 1}); got.LostPeer != c.want {
			t.Errorf("%s: lost peer: %v", name, got.LostPeer)
		}
	}
}

// TestTerminationMessage checks that the message of a failure is the output of the program, if
// there is any, and not the report of its launcher.
func TestTerminationMessage(t *testing.T) {
	for name, c := range map[string]struct {
		message, want string
	}{
		"output of a program": {message: "Traceback …\nValueError: x\n", want: "Traceback …\nValueError: x"},
		"program output comes before the report of torchrun": {
			message: torchrunOutput("[rank1]: Traceback …\n[rank1]: ValueError: x\n", "03:04:25.193", childFailedError),
			want:    "[rank1]: Traceback …\n[rank1]: ValueError: x",
		},
		"report without program output": {
			message: torchrunOutput("", "03:04:25.193", "train.py FAILED\n  exitcode  : 1"),
			want:    "…",
		},
		"rest of a truncated line is less useful than the report": {
			message: torchrunOutput("8.1.4]:16259\n", "03:04:25.193", "train.py FAILED\n  exitcode  : 1"),
			want:    "…",
		},
		"report that contains the traceback": {
			message: torchrunOutput(
				"a warning\nand another\n",
				"03:04:25.193",
				"traceback : Traceback (most recent call last):\n  ValueError: x\n  exitcode  : 1",
			),
			want: "…",
		},
		"torchrun restarted its workers before": {
			message: torchrunOutput(
				"E1120 03:04:02.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed\n"+
					"Traceback …\nValueError: x\n",
				"03:04:25.193",
				childFailedError,
			),
			want: "E1120 03:04:02.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed\n" +
				"Traceback …\nValueError: x",
		},
		"a host that Open MPI does not name": {
			message: "epoch 1\nrollcall: the connection to host train-worker-1 ended: i/o timeout\n" +
				strings.Repeat("This usually is caused by:\n", 40),
			want: "rollcall: the connection to host train-worker-1 ended: i/o timeout\n… " +
				strings.TrimSpace(strings.Repeat("This usually is caused by:\n", 16)),
		},
		"a host in a short message": {
			message: "rollcall: connecting to host train-worker-1: connection refused\nORTE was unable to start",
			want:    "rollcall: connecting to host train-worker-1: connection refused\nORTE was unable to start",
		},
		"a very long name of a host": {
			message: "rollcall: connecting to host " + strings.Repeat("ä", 1000) + "\n",
			want:    "rollcall: connecting to host " + strings.Repeat("ä", 113) + "\n… " + strings.Repeat("ä", 128),
		},
		"report without log lines of the agent": {
			message: "a\nValueError: x\nTraceback (most recent call last):\n" +
				"  File \"/usr/lib/python3/dist-packages/torch/distributed/run.py\", line 1, in <module>\n",
			want: "a\nValueError: x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure.First([]corev1.Pod{
				podtest.RankPod(0, withTerminationMessage(c.message)),
			}, 0, failure.Context{Attempt: 1}).Message
			if c.want == "…" {
				if !strings.HasPrefix(got, "… ") || !strings.HasSuffix(got, "exitcode  : 1") {
					t.Errorf("%q", got)
				}
			} else if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
