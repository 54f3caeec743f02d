package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/ranges"
)

// logClientset is a fake clientset that reads logs from an HTTP server. The fake of client-go returns
// the same line for every log.
type logClientset struct {
	kubernetes.Interface
	logs kubernetes.Interface
}

type logCoreClient struct {
	typedcorev1.CoreV1Interface
	logs kubernetes.Interface
}

type logPodClient struct {
	typedcorev1.PodInterface
	logs typedcorev1.PodInterface
}

// IsWatchListSemanticsUnSupported returns the value of the fake clientset, which the embedded
// interface does not contain.
func (logClientset) IsWatchListSemanticsUnSupported() bool { return true }

func (c logClientset) CoreV1() typedcorev1.CoreV1Interface {
	return logCoreClient{c.Interface.CoreV1(), c.logs}
}

func (c logCoreClient) Pods(namespace string) typedcorev1.PodInterface {
	return logPodClient{c.CoreV1Interface.Pods(namespace), c.logs.CoreV1().Pods(namespace)}
}

func (p logPodClient) GetLogs(name string, options *corev1.PodLogOptions) *rest.Request {
	return p.logs.GetLogs(name, options)
}

// logHandler serves the log of the pod with the given name.
type logHandler func(pod string, w http.ResponseWriter, r *http.Request)

// newLogCluster returns a reader of a cluster with the given objects, whose logs come from serve.
func newLogCluster(t *testing.T, serve logHandler, objects ...runtime.Object) (inspect.Reader, *fake.Clientset) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(path.Base(path.Dir(r.URL.Path)), w, r)
	}))
	t.Cleanup(server.Close)
	logs, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(objects...)
	return newReader(logClientset{client, logs}), client
}

// serveText serves the same text as the log of every pod.
func serveText(text string) logHandler {
	return func(_ string, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// outputRecorder records the output and each write. It is safe for concurrent use.
type outputRecorder struct {
	mu     sync.Mutex
	text   strings.Builder
	writes []string
}

func (o *outputRecorder) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes = append(o.writes, string(p))
	return o.text.Write(p)
}

func (o *outputRecorder) read() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *outputRecorder) hasText(text string) bool {
	return strings.Contains(o.read(), text)
}

// awaitText waits up to a minute until the output contains a text.
func (o *outputRecorder) awaitText(t *testing.T, text string) {
	t.Helper()
	for range 6000 {
		if o.hasText(text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%q was not printed", text)
}

// awaitWatch waits until a resource is watched. The fake clientset does not send changes that were
// made between the list and the watch.
func awaitWatch(t *testing.T, client *fake.Clientset, resource string) {
	t.Helper()
	isWatched := func(action clienttesting.Action) bool { return action.Matches("watch", resource) }
	for range 1000 {
		if slices.ContainsFunc(client.Actions(), isWatched) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s were not watched", resource)
}

// formatLogLine returns a line as the API server sends it, with a timestamp the given number of
// seconds after testTime.
func formatLogLine(second int, text string) string {
	return testTime.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano) + " " + text + "\n"
}

func TestLogsWithoutFollow(t *testing.T) {
	job := newAdmittedJob(t, 3, lifecycle.Running)
	var mu sync.Mutex
	var requests []string
	reader, _ := newLogCluster(t, func(pod string, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, pod+" "+r.URL.Query().Encode())
		mu.Unlock()
		if pod == "train-1" {
			http.Error(w, "the node does not respond", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, formatLogLine(1, "hello")+formatLogLine(2, "world"))
	}, job, newRunningPod(job, 0, 0), newRunningPod(job, 1, 0))
	var out, notes outputRecorder
	o := logsOptions{tail: 5, since: time.Minute}
	err := o.runLogs(t.Context(), reader, "train", nil, &linePrinter{out: &out, errOut: &notes})
	if err == nil {
		t.Error("no error for a log that could not be read")
	}
	if diff := cmp.Diff("[rank 0] hello\n[rank 0] world\n", out.text.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for _, note := range []string{
		"rank 2 has no logs: missing",
		"opening the log of rank 1 (pod train-1, container trainer)",
	} {
		if !notes.hasText(note) {
			t.Errorf("notes %q do not contain %q", notes.text.String(), note)
		}
	}
	want := "train-0 container=trainer&sinceSeconds=60&tailLines=5&timestamps=true"
	if !slices.Contains(requests, want) {
		t.Errorf("requests %q do not contain %q", requests, want)
	}
}

func TestLogsRankLimit(t *testing.T) {
	job := newAdmittedJob(t, 60, lifecycle.Running)
	objects := []runtime.Object{job}
	for rank := range 60 {
		objects = append(objects, newRunningPod(job, rank, 0))
	}
	reader, _ := newLogCluster(t, serveText(formatLogLine(0, "hello")), objects...)
	for name, c := range map[string]struct {
		options   logsOptions
		selected  ranges.Set
		wantLines int
		wantError string // part of the error
	}{
		"more than 50 ranks need a selection": {
			wantError: "has 60 ranks; select ranks with --rank, such as --rank 0, or print all of them with --all",
		},
		"all ranks are printed on request": {
			options:   logsOptions{allRanks: true},
			wantLines: 60,
		},
		"only the selected ranks are printed": {
			selected:  ranges.Set{{0, 0}, {58, 70}},
			wantLines: 3,
		},
		"a rank beyond the size of the gang is an error": {
			selected:  ranges.Set{{60, 60}},
			wantError: "numbered from 0; it does not have rank 60",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.tail = -1
			var out, notes outputRecorder
			err := c.options.runLogs(t.Context(), reader, "train", c.selected, &linePrinter{out: &out, errOut: &notes})
			if got := strings.Count(out.text.String(), "\n"); got != c.wantLines {
				t.Errorf("%d lines, want %d", got, c.wantLines)
			}
			if (err != nil) != (c.wantError != "") || err != nil && !strings.Contains(err.Error(), c.wantError) {
				t.Errorf("error %v, want an error that contains %q", err, c.wantError)
			}
		})
	}
	if _, err := (&logsOptions{ranks: "1", allRanks: true}).selectedRanks(); err == nil {
		t.Error("no error for --rank together with --all")
	}
}

// followedLogs serves the logs of TestLogsFollow. The log of rank 1 never ends. The connection to
// rank 0 ends after three lines and can be continued from the second of the last line. The third
// request is for the log of the restarted container.
func followedLogs(t *testing.T) logHandler {
	t.Helper()
	firstLines := formatLogLine(1, "one") + formatLogLine(2, "two") + formatLogLine(2, "also two")
	var mu sync.Mutex
	requests := map[string]int{}
	return func(pod string, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests[pod]++
		n := requests[pod]
		mu.Unlock()
		sinceTime := r.URL.Query().Get("sinceTime")
		switch {
		case pod == "train-1":
			_, _ = io.WriteString(w, formatLogLine(0, "late"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case n == 1:
			_, _ = io.WriteString(w, firstLines)
		case n == 2:
			if sinceTime != "2026-03-01T12:00:02Z" {
				t.Errorf("sinceTime is %q, want the time of the last line", sinceTime)
			}
			_, _ = io.WriteString(w, firstLines+formatLogLine(2, "two more")+formatLogLine(3, "three"))
		default:
			_, _ = io.WriteString(w, formatLogLine(9, "restarted, sinceTime="+sinceTime))
		}
	}
}

// TestLogsFollow follows a gang of two ranks. Rank 1 starts later, the connection to rank 0 ends, the
// container of rank 0 is restarted within its pod, and the gang succeeds.
func TestLogsFollow(t *testing.T) {
	job := newAdmittedJob(t, 2, lifecycle.Running)
	reader, client := newLogCluster(t, followedLogs(t), job, newRunningPod(job, 0, 0))
	var out, notes outputRecorder
	o := logsOptions{follow: true, tail: -1}
	result := make(chan error, 1)
	go func() {
		result <- o.runLogs(t.Context(), reader, "train", nil, &linePrinter{out: &out, errOut: &notes})
	}()

	awaitWatch(t, client, "pods")
	awaitWatch(t, client, "jobs")
	pods := client.CoreV1().Pods("team")
	out.awaitText(t, "[rank 0] also two\n")
	if _, err := pods.Create(t.Context(), newRunningPod(job, 1, 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.awaitText(t, "[rank 1] late\n")
	out.awaitText(t, "[rank 0] three\n")
	if _, err := pods.Update(t.Context(), newRunningPod(job, 0, 1), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.awaitText(t, "[rank 0] restarted, sinceTime=\n")
	succeeded := job.DeepCopy()
	setPhase(t, succeeded, lifecycle.Succeeded)
	if _, err := client.BatchV1().Jobs("team").Update(t.Context(), succeeded, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("error %v after the gang succeeded", err)
		}
	case <-time.After(drainTimeout + 10*time.Second):
		t.Fatal("the logs of a gang that succeeded are still followed")
	}
	if !strings.Contains(notes.text.String(), "are no longer followed") {
		t.Errorf("notes %q do not report the log that did not end", notes.text.String())
	}
	for _, line := range []string{"] one\n", "] two\n", "] also two\n", "] two more\n", "] three\n"} {
		if n := strings.Count(out.text.String(), line); n != 1 {
			t.Errorf("%q was printed %d times, want once", line, n)
		}
	}
}

// TestLogsSlowReader checks that all lines of a finished gang are printed, even if the reader of the
// output is slower than drainTimeout.
func TestLogsSlowReader(t *testing.T) {
	t.Parallel()
	job := newAdmittedJob(t, 1, lifecycle.Succeeded)
	lines := formatLogLine(0, "one") + formatLogLine(1, "two") + formatLogLine(2, "three")
	reader, _ := newLogCluster(t, serveText(lines), job, newRunningPod(job, 0, 0))
	pipeReader, pipeWriter := io.Pipe()
	var got []byte
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(drainTimeout + time.Second)
		got, _ = io.ReadAll(pipeReader)
	}()
	o := logsOptions{follow: true, tail: -1}
	err := o.runLogs(t.Context(), reader, "train", nil, &linePrinter{out: pipeWriter, errOut: io.Discard})
	if err != nil {
		t.Error(err)
	}
	_ = pipeWriter.Close()
	<-done
	if want := "[rank 0] one\n[rank 0] two\n[rank 0] three\n"; string(got) != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

// TestLogsOutputClosed checks that the command ends if the reader of its output has exited, as in
// rollcall logs | head.
func TestLogsOutputClosed(t *testing.T) {
	job := newAdmittedJob(t, 1, lifecycle.Running)
	reader, _ := newLogCluster(t, serveText(formatLogLine(0, "hello")), job, newRunningPod(job, 0, 0))
	pipeReader, pipeWriter := io.Pipe()
	_ = pipeReader.Close()
	o := logsOptions{follow: true, tail: -1}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := o.runLogs(ctx, reader, "train", nil, &linePrinter{out: pipeWriter, errOut: io.Discard})
	if err == nil || ctx.Err() != nil {
		t.Errorf("error %v, want an error of the output before the timeout", err)
	}
}

// TestPrintLine checks that every write is one complete line while 20 ranks write.
func TestPrintLine(t *testing.T) {
	var out outputRecorder
	p := &linePrinter{out: &out, errOut: io.Discard}
	log := strings.Repeat(formatLogLine(0, strings.Repeat("x", 500)), 50)
	var wg sync.WaitGroup
	for rank := range int32(20) {
		wg.Go(func() {
			prefix := p.formatPrefix(logSource{rank: rank})
			if err := p.copyLog(prefix, strings.NewReader(log), &logPosition{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, write := range out.writes {
		if !strings.HasPrefix(write, "[rank ") || strings.Count(write, "\n") != 1 || !strings.HasSuffix(write, "x\n") {
			t.Fatalf("write %q is not one complete line", write)
		}
	}
}

func TestCopyLog(t *testing.T) {
	at := func(second, lines int) logPosition {
		return logPosition{lastTime: testTime.Add(time.Duration(second) * time.Second), linesAtTime: lines}
	}
	for name, c := range map[string]struct {
		log   string
		start logPosition
		want  string
		end   logPosition
	}{
		"timestamps are removed": {
			log:  formatLogLine(1, "a") + formatLogLine(2, "b"),
			want: "> a\n> b\n",
			end:  at(2, 1),
		},
		"an empty line is printed": {
			log:  formatLogLine(1, ""),
			want: "> \n",
			end:  at(1, 1),
		},
		"the last line of a killed program has no end": {
			log:  strings.TrimSuffix(formatLogLine(1, "a"), "\n"),
			want: "> a\n",
			end:  at(1, 1),
		},
		"printed lines are not printed again": {
			log:   formatLogLine(1, "a") + formatLogLine(2, "b") + formatLogLine(2, "c") + formatLogLine(3, "d"),
			start: at(2, 1),
			want:  "> c\n> d\n",
			end:   at(3, 1),
		},
		"the position stays if there are no new lines": {
			log:   formatLogLine(1, "a") + formatLogLine(2, "b"),
			start: at(2, 1),
			end:   at(2, 1),
		},
		"a message of the kubelet has no timestamp": {
			log:  "unable to retrieve container logs\n",
			want: "> unable to retrieve container logs\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			position := c.start
			if err := (&linePrinter{out: &out}).copyLog("> ", strings.NewReader(c.log), &position); err != nil {
				t.Fatal(err)
			}
			samePosition := position.lastTime.Equal(c.end.lastTime) && position.linesAtTime == c.end.linesAtTime
			if out.String() != c.want || !samePosition {
				t.Errorf("printed %q up to %+v, want %q up to %+v", out.String(), position, c.want, c.end)
			}
		})
	}
}

func TestCopyLogLongLine(t *testing.T) {
	var out outputRecorder
	text := strings.Repeat("x", 3*maxLineBytes) + "\n"
	if err := (&linePrinter{out: &out}).copyLog("", strings.NewReader(text), &logPosition{}); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(out.text.String(), "\n", "")
	if got != strings.TrimSuffix(text, "\n") || len(out.writes) < 3 {
		t.Errorf("a long line was printed as %d bytes in %d parts, want all bytes in at least 3 parts",
			len(got), len(out.writes))
	}
}

func TestFormatPrefix(t *testing.T) {
	for name, c := range map[string]struct {
		color  bool
		source logSource
		want   string
	}{
		"the prefix contains the rank": {
			source: logSource{rank: 3},
			want:   "[rank 3] ",
		},
		"the prefix contains the container if there are several": {
			source: logSource{rank: 3, multiContainer: true, containerRun: containerRun{container: "chief"}},
			want:   "[rank 3 chief] ",
		},
		"a terminal gets colors": {
			color:  true,
			source: logSource{rank: 0},
			want:   "\x1b[36m[rank 0]\x1b[0m ",
		},
		"colors repeat after six ranks": {
			color:  true,
			source: logSource{rank: 6},
			want:   "\x1b[36m[rank 6]\x1b[0m ",
		},
		"neighboring ranks have different colors": {
			color:  true,
			source: logSource{rank: 1},
			want:   "\x1b[33m[rank 1]\x1b[0m ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&linePrinter{color: c.color}).formatPrefix(c.source); got != c.want {
				t.Errorf("formatPrefix() = %q, want %q", got, c.want)
			}
		})
	}
}
