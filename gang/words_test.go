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

// TestNoticed: torchrun says when it noticed a worker's end, which tells ranks apart that
// ended within one second, and is the time of a rank that took long to end.
func TestNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		words   string
		ended   int // seconds after 03:04:05
		at      int
		noticed time.Duration // within that second; negative for none
	}{
		"same second":   {"", torchrun("", "03:04:25.193", childFailed), 20, 20, 193 * time.Millisecond},
		"later":         {"it gave its other workers time to end", torchrun("", "03:04:24.500", childFailed), 45, 19, 500 * time.Millisecond},
		"minute before": {"", torchrun("", "03:04:59.999", childFailed), 57, 54, 999 * time.Millisecond},
		"other zone":    {"a container may have any", torchrun("", "11:34:25.193", childFailed), 20, 20, 193 * time.Millisecond},
		"other logger":  {"warnings at the start tell nothing", "W1120 03:04:07.193000 1 torch/distributed/run.py:792] Setting OMP_NUM_THREADS\n", 20, 20, -1},
		"no launcher":   {"", "ValueError: x", 20, 20, -1},
		"cut off":       {"the kubelet keeps 2 KiB", "4:25.193000 1 torch/distributed/elastic/multiprocessing/api.py:897] Sending process\n", 20, 20, -1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := rankPod(0, func(p *corev1.Pod) {
				ended(1, c.ended, false)(p)
				p.Status.ContainerStatuses[0].State.Terminated.Message = c.words
			})
			got := gang.FirstFall([]corev1.Pod{pod}, 0, gang.Watch{Attempt: 1})
			if !got.At.Equal(second(c.at)) {
				t.Errorf("%s: it fell at %s, want %s", c.reason, got.At, second(c.at))
			}
			if c.noticed < 0 {
				if !got.Noticed.IsZero() {
					t.Errorf("%s: noticed at %s", c.reason, got.Noticed)
				}
			} else if want := second(c.at).Add(c.noticed); !got.Noticed.Equal(want) {
				t.Errorf("%s: noticed at %s, want %s", c.reason, got.Noticed, want)
			}
		})
	}
}

// TestFirstOfTorchrun: of pods of torchrun, whose reports are alike, the one that noticed
// first is the first, and one that was told to end is none.
func TestFirstOfTorchrun(t *testing.T) {
	says := func(index int, words string, more ...func(*corev1.Pod)) corev1.Pod {
		return rankPod(index, func(p *corev1.Pod) {
			ended(1, 20, false)(p)
			p.Status.ContainerStatuses[0].State.Terminated.Message = words
			for _, change := range more {
				change(p)
			}
		})
	}
	pods := []corev1.Pod{
		says(0, torchrun("", "03:04:25.764", childFailed)),
		says(1, torchrun("", "03:04:25.193", childFailed)),
		says(2, torchrun("", "03:04:25.350", childFailed)),
	}
	stopping := gang.Watch{Attempt: 1, Stopping: true, Told: second(20)}
	if got := gang.FirstFall(pods, 0, stopping); got.Rank != 1 {
		t.Errorf("the first is %+v", got)
	}
	told := says(0, torchrun("", "03:04:25.100", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15\n"), deleted(20))
	if got := gang.FirstFall([]corev1.Pod{told}, 0, stopping); got != nil {
		t.Errorf("one that was told to end fell: %+v", got)
	}
	if got := gang.FirstFall([]corev1.Pod{told}, 0, gang.Watch{Attempt: 1}); got == nil || got.Reason != gang.FallDeleted {
		t.Errorf("one whose pod somebody deleted: %+v", got)
	}
}

// TestLastWords: what is kept of a log is why the program failed, and not what its launcher
// says to that, if there is anything else.
func TestLastWords(t *testing.T) {
	for name, c := range map[string]struct {
		reason, words, want string
	}{
		"program":              {"", "Traceback …\nValueError: x\n", "Traceback …\nValueError: x"},
		"torchrun":             {"", torchrun("[rank1]: Traceback …\n[rank1]: ValueError: x\n", "03:04:25.193", childFailed), "[rank1]: Traceback …\n[rank1]: ValueError: x"},
		"nothing else":         {"its report names the worker at least", torchrun("", "03:04:25.193", "train.py FAILED\n  exitcode  : 1"), "…"},
		"rest of a line":       {"the end of an address says nothing", torchrun("8.1.4]:16259\n", "03:04:25.193", "train.py FAILED\n  exitcode  : 1"), "…"},
		"no line of the agent": {"it goes by another name", "a\nValueError: x\nTraceback (most recent call last):\n  File \"/usr/lib/python3/dist-packages/torch/distributed/run.py\", line 1, in <module>\n", "a\nValueError: x"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := rankPod(0, func(p *corev1.Pod) {
				ended(1, 20, false)(p)
				p.Status.ContainerStatuses[0].State.Terminated.Message = c.words
			})
			got := gang.FirstFall([]corev1.Pod{pod}, 0, gang.Watch{Attempt: 1}).Message
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
