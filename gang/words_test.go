package gang_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// torchrun is what it prints when a worker failed, or when it was told to end, as PyTorch 2.6
// does, with the worker's last words before it.
func torchrun(words, at, verdict string) string {
	return words + "W1120 " + at + "000 1 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 12 closing signal SIGTERM\n" +
		"E1120 " + at + "999 1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 10) of binary: /usr/bin/python3\n" +
		"Traceback (most recent call last):\n  File \"/usr/bin/torchrun\", line 33, in <module>\n    sys.exit(main())\n" +
		strings.Repeat("  File \"/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py\", line 138, in __call__\n", 10) + verdict
}

const childFailed = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n  exitcode  : 1 (pid: 10)\n"

// TestNoticed: torchrun says when it noticed a worker's end.
func TestNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		words   string
		noticed time.Duration // before or after the second in which the pod ended; 0 for none
	}{
		"same second":   {"", torchrun("", "03:04:25.193", childFailed), 193 * time.Millisecond},
		"earlier":       {"it gave its other workers time to end", torchrun("", "03:04:01.500", childFailed), -23500 * time.Millisecond},
		"minute before": {"", torchrun("", "03:03:59.999", childFailed), -25001 * time.Millisecond},
		"other zone":    {"a container may have any", torchrun("", "11:34:25.193", childFailed), 193 * time.Millisecond},
		"other words":   {"those of its workers may stand between", torchrun("E1120 03:04:02.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed\nagain\n", "03:04:25.193", childFailed), 193 * time.Millisecond},
		"other logger":  {"warnings at the start tell nothing", "W1120 03:04:07.193000 1 torch/distributed/run.py:792] Setting OMP_NUM_THREADS\n", 0},
		"no report":     {"a worker's end that it got over", "W1120 03:04:07.193000 1 torch/distributed/elastic/multiprocessing/api.py:897] Sending process\nValueError: x\n", 0},
		"no launcher":   {"", "ValueError: x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := gang.FirstFall([]corev1.Pod{rankPod(0, says(c.words))}, 0, gang.Watch{Attempt: 1})
			want := time.Time{}
			if c.noticed != 0 {
				want = second(20).Add(c.noticed)
			}
			if !got.Noticed.Equal(want) || !got.At.Equal(second(20)) {
				t.Errorf("%s: noticed at %s, want %s; it fell at %s", c.reason, got.Noticed, want, got.At)
			}
		})
	}
}

// TestFirstOfTorchrun: of pods of torchrun, whose reports are alike, the one that noticed
// first is the first, and one that was told to end is none.
func TestFirstOfTorchrun(t *testing.T) {
	pods := []corev1.Pod{
		rankPod(0, says(torchrun("", "03:04:25.764", childFailed))),
		rankPod(1, says(torchrun("", "03:04:25.193", childFailed))),
		rankPod(2, says(torchrun("", "03:04:25.350", childFailed))),
	}
	stopping := gang.Watch{Attempt: 1, Stopping: true, Told: second(20)}
	if got := gang.FirstFall(pods, 0, stopping); got.Rank != 1 {
		t.Errorf("the first is %+v", got)
	}
	signal := func(p *corev1.Pod) {
		ended(1, 20, false)(p)
		p.Status.ContainerStatuses[0].State.Terminated.Message = torchrun("", "03:04:25.100", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15\n")
	}
	told := rankPod(0, func(p *corev1.Pod) { signal(p); deleted(20)(p) })
	if got := gang.FirstFall([]corev1.Pod{told}, 0, stopping); got != nil {
		t.Errorf("one that was told to end fell: %+v", got)
	}
	if got := gang.FirstFall([]corev1.Pod{told}, 0, gang.Watch{Attempt: 1}); got == nil || got.Reason != gang.FallDeleted {
		t.Errorf("one whose pod somebody deleted: %+v", got)
	}
	if got := gang.FirstFall([]corev1.Pod{rankPod(0, signal)}, 0, gang.Watch{Attempt: 1}); got == nil || !got.Told {
		t.Errorf("one that somebody else told: %+v", got)
	}
}

// TestPeerAmongWorkers: what one of several workers of a pod says of a peer may be of the one
// beside it, which fell first.
func TestPeerAmongWorkers(t *testing.T) {
	const lost = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer\n"
	const failed = "E1120 03:04:25.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 10)\n"
	const trace = "Traceback (most recent call last):\n  File \"/usr/bin/torchrun\", line 33, in <module>\n"
	for name, c := range map[string]struct {
		words string
		want  bool
	}{
		"one worker":               {lost + failed + trace + "Failures:\n  <NO_OTHER_FAILURES>\n", true},
		"others were ended":        {torchrun(lost, "03:04:25.193", "Failures:\n  <NO_OTHER_FAILURES>\n"), false},
		"others had ended already": {lost + failed + trace + "Failures:\n[1]:\n", false},
	} {
		if got := gang.FirstFall([]corev1.Pod{rankPod(0, says(c.words))}, 0, gang.Watch{Attempt: 1}); got.Peer != c.want {
			t.Errorf("%s: a peer: %v", name, got.Peer)
		}
	}
}

// TestLastWords: what is kept of a log is why the program failed, and not what its launcher
// says to that, if there is anything else.
func TestLastWords(t *testing.T) {
	for name, c := range map[string]struct {
		reason, words, want string
	}{
		"program":                {"", "Traceback …\nValueError: x\n", "Traceback …\nValueError: x"},
		"torchrun":               {"", torchrun("[rank1]: Traceback …\n[rank1]: ValueError: x\n", "03:04:25.193", childFailed), "[rank1]: Traceback …\n[rank1]: ValueError: x"},
		"nothing else":           {"its report names the worker at least", torchrun("", "03:04:25.193", "train.py FAILED\n  exitcode  : 1"), "…"},
		"rest of a line":         {"the end of an address says nothing", torchrun("8.1.4]:16259\n", "03:04:25.193", "train.py FAILED\n  exitcode  : 1"), "…"},
		"report with the reason": {"of a worker with @record", torchrun("a warning\nand another\n", "03:04:25.193", "traceback : Traceback (most recent call last):\n  ValueError: x\n  exitcode  : 1"), "…"},
		"got over once": {"the agent began its workers anew", torchrun("E1120 03:04:02.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed\nTraceback …\nValueError: x\n", "03:04:25.193", childFailed),
			"E1120 03:04:02.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed\nTraceback …\nValueError: x"},
		"no line of the agent": {"it goes by another name", "a\nValueError: x\nTraceback (most recent call last):\n  File \"/usr/lib/python3/dist-packages/torch/distributed/run.py\", line 1, in <module>\n", "a\nValueError: x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := gang.FirstFall([]corev1.Pod{rankPod(0, says(c.words))}, 0, gang.Watch{Attempt: 1}).Message
			if c.want == "…" {
				if !strings.HasPrefix(got, "… ") || !strings.HasSuffix(got, "exitcode  : 1") {
					t.Errorf("%s: %q", c.reason, got)
				}
			} else if got != c.want {
				t.Errorf("%s: %q, want %q", c.reason, got, c.want)
			}
		})
	}
}
