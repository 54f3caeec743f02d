package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
)

func TestStatusWatch(t *testing.T) {
	for name, c := range map[string]struct {
		lastPhase lifecycle.Phase
		wantError bool
	}{
		"a gang that succeeds is not an error": {lastPhase: lifecycle.Succeeded},
		"a gang that fails is an error":        {lastPhase: lifecycle.Failed, wantError: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := newAdmittedJob(t, 2, lifecycle.Running)
			client := fake.NewClientset(job, newRunningPod(job, 0, 0), newRunningPod(job, 1, 0))
			var out outputRecorder
			var wg sync.WaitGroup
			wg.Go(func() {
				out.awaitText(t, "\n")
				awaitWatch(t, client, "jobs")
				finished := job.DeepCopy()
				setPhase(t, finished, c.lastPhase)
				_, _ = client.BatchV1().Jobs("team").Update(t.Context(), finished, metav1.UpdateOptions{})
			})
			o := newStatusOptions()
			o.watch, o.output = true, outputJSON
			err := o.runStatus(t.Context(), newReader(client), "train", &out, nil)
			wg.Wait()
			if (err != nil) != c.wantError {
				t.Errorf("error %v, want an error: %t", err, c.wantError)
			}
			var phases []lifecycle.Phase
			for line := range strings.Lines(out.text.String()) {
				var g inspect.Gang
				if err := json.Unmarshal([]byte(line), &g); err != nil {
					t.Fatalf("decoding the line %q: %v", line, err)
				}
				phases = append(phases, g.Phase)
			}
			if diff := cmp.Diff([]lifecycle.Phase{lifecycle.Running, c.lastPhase}, phases); diff != "" {
				t.Errorf("phase of each line (-want +got):\n%s", diff)
			}
		})
	}
}

// updatePhase changes the phase of a Job in the cluster.
func updatePhase(t *testing.T, client *fake.Clientset, job *batchv1.Job, phase lifecycle.Phase) {
	t.Helper()
	changed := job.DeepCopy()
	setPhase(t, changed, phase)
	if _, err := client.BatchV1().Jobs("team").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

// TestStatusWatchLines verifies that an output gets one line for each change unless it is a terminal.
func TestStatusWatchLines(t *testing.T) {
	train := newAdmittedJob(t, 2, lifecycle.Running)
	other := train.DeepCopy()
	other.Name, other.UID, other.Spec.Template.Labels = "other", "uid-other", nil
	client := fake.NewClientset(train, other, newRunningPod(train, 0, 0))
	ended := errors.New("enough")
	o := newStatusOptions()
	o.watch = true
	var out outputRecorder
	printed, calls := map[string]string{}, 0
	err := watchGangs(t.Context(), newReader(client), "", func(gangs []inspect.Gang) error {
		if err := o.printChanges(&out, gangs, "", printed); err != nil {
			return err
		}
		if calls++; calls == 1 {
			awaitWatch(t, client, "jobs")
			updatePhase(t, client, train, lifecycle.Succeeded)
		}
		if out.hasText("Succeeded") {
			return ended
		}
		return nil
	})
	if !errors.Is(err, ended) {
		t.Fatalf("error %v, want %v", err, ended)
	}
	want := `12:00:00  other  Running  ranks 0/2  restarts 0/3  message of the phase, now 0
12:00:00  train  Running  ranks 0/2  restarts 0/3  message of the phase, now 0
12:00:00  train  Succeeded  ranks 0/2  restarts 0/3  message of the phase
`
	if diff := cmp.Diff(want, out.text.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// newLogClient returns a client whose logs are a text.
func newLogClient(text string, objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	client.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "log", &runtime.Unknown{Raw: []byte(text)}, nil
	})
	return client
}

// TestStatusWatchReadsLogsRarely verifies that a change within 10 seconds keeps the progress and reads no log, and that
// the progress of a single gang is printed.
func TestStatusWatchReadsLogsRarely(t *testing.T) {
	job := newAdmittedJob(t, 2, lifecycle.Running)
	job.Annotations[gang.AnnotationProgressPattern] = `step (?P<step>\d+)`
	client := newLogClient("2026-03-01T12:00:00Z step 12\n", job, newRunningPod(job, 0, 0))
	calls, ended := 0, errors.New("enough")
	err := watchGangs(t.Context(), newReader(client), "train", func(gangs []inspect.Gang) error {
		if p := gangs[0].Progress; p == nil || *p.Step != 12 {
			t.Errorf("the progress is %v", p)
		}
		if calls++; gangs[0].Ready == 2 {
			return ended
		}
		awaitWatch(t, client, "pods")
		_, err := client.CoreV1().Pods("team").Create(t.Context(), newRunningPod(job, 1, 0), metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	if !errors.Is(err, ended) {
		t.Fatal(err)
	}
	reads := 0
	for _, action := range client.Actions() {
		if action.GetSubresource() == "log" {
			reads++
		}
	}
	if reads != 1 || calls < 2 {
		t.Errorf("%d logs were read for %d states, want 1", reads, calls)
	}
	var out strings.Builder
	o := newStatusOptions()
	if err := o.runStatus(t.Context(), newReader(client), "train", &out, nil); err != nil {
		t.Fatal(err)
	}
	checkOrder(t, out.String(), []string{"Step 12 (printed 0s ago)\n"})
}

// TestStatusWatchEnd verifies that the status of a finished gang follows its last line.
func TestStatusWatchEnd(t *testing.T) {
	job := newAdmittedJob(t, 2, lifecycle.Failed)
	o := newStatusOptions()
	o.watch = true
	var out strings.Builder
	err := o.runStatus(t.Context(), newReader(fake.NewClientset(job)), "train", &out, nil)
	if err == nil || err.Error() != "gang train failed" {
		t.Errorf("error %v, want that the gang failed", err)
	}
	checkOrder(t, out.String(), []string{"12:00:00  train  Failed", "\n\nteam/train  pytorch  Failed since", "Job train"})
}

func TestScreen(t *testing.T) {
	width, height := 80, 4
	var out bytes.Buffer
	s := &screen{out: &out, readSize: func(io.Writer) (int, int, bool) { return width, height, true }}
	now := testTime
	for _, step := range []struct {
		name, text string
		resize     int
		later      time.Duration
		isDue      bool
		want       string
	}{
		{
			name: "the first text opens the screen", text: "a\nb\n", isDue: true,
			want: openScreen + "\x1b[1;1H\x1b[2Ka\x1b[2;1H\x1b[2Kb",
		},
		{name: "half a second later nothing is due", later: time.Second / 2},
		{name: "an equal text writes nothing", text: "a\nb\n", later: time.Second / 2, isDue: true},
		{name: "a changed line is written", text: "a\nc\n", later: time.Second, isDue: true, want: "\x1b[2;1H\x1b[2Kc"},
		{name: "a line that is gone is cleared", text: "a\n", later: time.Second, isDue: true, want: "\x1b[2;1H\x1b[2K"},
		{
			name: "a resized terminal is due at once and gets all lines", text: "a\nb\nc\n", resize: 2, isDue: true,
			want: clearScreen + "\x1b[1;1H\x1b[2Ka\x1b[2;1H\x1b[2K… 2 more lines",
		},
	} {
		now = now.Add(step.later)
		if step.resize > 0 {
			height = step.resize
		}
		if s.isDue(now) != step.isDue {
			t.Errorf("%s: due %t, want %t", step.name, !step.isDue, step.isDue)
		}
		if !step.isDue {
			continue
		}
		out.Reset()
		if err := s.draw(now, func(w io.Writer) { fmt.Fprint(w, step.text) }); err != nil {
			t.Fatal(err)
		}
		if step.want != "" {
			step.want = beginUpdate + step.want + endUpdate
		}
		if diff := cmp.Diff(step.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	out.Reset()
	s.close()
	s.close()
	if out.String() != closeScreen {
		t.Errorf("closing writes %q, want %q once", out.String(), closeScreen)
	}
}

func TestCutLine(t *testing.T) {
	for line, want := range map[string]string{
		"fits":                            "fits",
		"too long":                        "too l",
		"\x1b[32mgreen\x1b[0m":            "\x1b[32mgreen\x1b[0m",
		"\x1b[32m##\x1b[31mxx\x1b[0m # #": "\x1b[32m##\x1b[31mxx\x1b[0m " + resetColor,
	} {
		if got := cutLine(line, 5); got != want {
			t.Errorf("cutLine(%q, 5) = %q, want %q", line, got, want)
		}
	}
	if got := cutLine("a line on a terminal of unknown width", 0); got != "a line on a terminal of unknown width" {
		t.Errorf("cutLine() = %q", got)
	}
}

// openTerminal returns a pseudo terminal, and what is written to it.
func openTerminal(t *testing.T, columns, lines uint16) (*os.File, *outputRecorder) {
	t.Helper()
	master, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("opening a pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _, _ = master.Close(), terminal.Close() })
	if err := pty.Setsize(master, &pty.Winsize{Cols: columns, Rows: lines}); err != nil {
		t.Fatal(err)
	}
	out := &outputRecorder{}
	go func() { _, _ = io.Copy(out, master) }()
	return terminal, out
}

// newLiveOptions returns the flags of status --watch with the real clock, which the redraws need.
func newLiveOptions() *statusOptions {
	return &statusOptions{output: outputText, clock: clock.RealClock{}, watch: true}
}

var colorSequence = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestStatusLive verifies on a pseudo terminal that a gang of many ranks is drawn once, then only its changed lines,
// and again completely after a resize, with a bounded number of requests.
func TestStatusLive(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	const ranks = 10_000
	job := newAdmittedJob(t, ranks, lifecycle.Running)
	objects := []runtime.Object{job}
	for i := range ranks {
		if i%7 > 0 { // the states of neighbors differ, so that the grid has all rows
			objects = append(objects, newRunningPod(job, i, 0))
		}
	}
	client := fake.NewClientset(objects...)
	terminal, out := openTerminal(t, 100, 300)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = newLiveOptions().runStatus(t.Context(), newReader(client), "train", terminal, nil) })
	out.awaitText(t, "9950")
	first := len(out.read())
	awaitWatch(t, client, "pods")
	if err := client.CoreV1().Pods("team").Delete(t.Context(), "train-9999", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	out.awaitText(t, fmt.Sprintf("%d ready", ranks-ranks/7-2))
	changed := len(out.read()) - first
	if limit := first / 10; changed > limit {
		t.Errorf("a changed rank wrote %d bytes after %d for the first screen, want at most %d", changed, first, limit)
	}
	if err := pty.Setsize(terminal, &pty.Winsize{Cols: 40, Rows: 10}); err != nil {
		t.Fatal(err)
	}
	out.awaitText(t, " more lines")
	updatePhase(t, client, job, lifecycle.Succeeded)
	wg.Wait()
	if err != nil {
		t.Errorf("error %v of a gang that succeeded", err)
	}
	out.awaitText(t, closeScreen+"team/train")
	text := out.read()
	if strings.Count(text, openScreen) != 1 || strings.Count(text, closeScreen) != 1 || colorSequence.MatchString(text) {
		t.Errorf("the screen is not opened and closed once, or has colors: %d bytes", len(text))
	}
	if n := len(client.Actions()); n > 20 {
		t.Errorf("%d requests, want at most 20", n)
	}
	t.Logf("first screen %d bytes, changed rank %d bytes, %d requests", first, changed, len(client.Actions()))
}

// TestStatusLiveLog verifies that a terminal shows the end of a log above the ranks, reads it again without a change of
// the gang, and does not leave it on the terminal.
func TestStatusLiveLog(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	job := newAdmittedJob(t, 2, lifecycle.Running)
	client := newLogClient("one\n", job, newRunningPod(job, 0, 0), newRunningPod(job, 1, 0))
	var reads atomic.Int32
	client.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		isLater := a.GetSubresource() == "log" && reads.Add(1) > 1
		return isLater, &runtime.Unknown{Raw: []byte("two\n")}, nil
	})
	terminal, out := openTerminal(t, 100, 50)
	o := newLiveOptions()
	o.logRank = ptr.To[int32](1)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = o.runStatus(t.Context(), newReader(client), "train", terminal, nil) })
	out.awaitText(t, "  one")
	out.awaitText(t, "  two")
	updatePhase(t, client, job, lifecycle.Succeeded)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	out.awaitText(t, closeScreen+"team/train")
	live, last, _ := strings.Cut(out.read(), closeScreen)
	checkOrder(t, live, []string{"Job train", "Log of rank 1", "2 ready"})
	if strings.Contains(last, "Log of rank") {
		t.Errorf("the log stays on the terminal: %s", last)
	}
}

// TestStatusLiveInterrupted verifies that a signal restores the terminal and results in the exit code of a shell.
func TestStatusLiveInterrupted(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for sent, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sent.String(), func(t *testing.T) {
			job := newAdmittedJob(t, 2, lifecycle.Running)
			terminal, out := openTerminal(t, 80, 24)
			var err error
			var wg sync.WaitGroup
			wg.Go(func() {
				err = newLiveOptions().runStatus(t.Context(), newReader(fake.NewClientset(job)), "", terminal, nil)
			})
			out.awaitText(t, "message of the phase")
			if err := syscall.Kill(os.Getpid(), sent); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if exitCode(err) != want {
				t.Errorf("error %v, want exit code %d", err, want)
			}
			out.awaitText(t, closeScreen+"GANG")
		})
	}
}

// TestStatusOnDumbTerminal verifies that a terminal without control sequences gets lines.
func TestStatusOnDumbTerminal(t *testing.T) {
	t.Setenv("TERM", "dumb")
	terminal, out := openTerminal(t, 80, 24)
	reader := newReader(fake.NewClientset(newAdmittedJob(t, 2, lifecycle.Succeeded)))
	if err := newLiveOptions().runStatus(t.Context(), reader, "train", terminal, nil); err != nil {
		t.Fatal(err)
	}
	out.awaitText(t, "Job train")
	if text := out.read(); strings.Contains(text, "\x1b") || !strings.Contains(text, "  train  Succeeded  ") {
		t.Errorf("output %q, want a line without control sequences", text)
	}
}
