package main

import (
	"bytes"
	"context"
	"fmt"
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

	"rollcall.training/gang"
	"rollcall.training/roster"
)

// withLogs is a fake cluster whose logs come from an HTTP server: client-go's fake has
// the same line for all of them.
type withLogs struct {
	kubernetes.Interface
	logs kubernetes.Interface
}

type coreWithLogs struct {
	typedcorev1.CoreV1Interface
	logs kubernetes.Interface
}

type podsWithLogs struct {
	typedcorev1.PodInterface
	logs typedcorev1.PodInterface
}

// IsWatchListSemanticsUnSupported says for the fake what it says itself.
func (withLogs) IsWatchListSemanticsUnSupported() bool { return true }

func (c withLogs) CoreV1() typedcorev1.CoreV1Interface {
	return coreWithLogs{c.Interface.CoreV1(), c.logs}
}

func (c coreWithLogs) Pods(namespace string) typedcorev1.PodInterface {
	return podsWithLogs{c.CoreV1Interface.Pods(namespace), c.logs.CoreV1().Pods(namespace)}
}

func (p podsWithLogs) GetLogs(name string, o *corev1.PodLogOptions) *rest.Request {
	return p.logs.GetLogs(name, o)
}

// logCluster serves logs by the name of the pod.
func logCluster(t *testing.T, serve func(pod string, w http.ResponseWriter, r *http.Request), objects ...runtime.Object) (roster.Reader, *fake.Clientset) {
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
	return roster.Reader{Client: withLogs{client, logs}, Namespace: "team"}, client
}

// output collects what is printed, one write at a time.
type output struct {
	mu     sync.Mutex
	text   strings.Builder
	writes []string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes = append(o.writes, string(p))
	return o.text.Write(p)
}

func (o *output) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.text.String(), text)
}

// await waits until something has been printed.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	for range 1000 {
		if o.has(text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%q was not printed", text)
}

// awaitWatch waits until a kind is watched: the fake cluster tells nobody of what changed between the list and the watch.
func awaitWatch(t *testing.T, client *fake.Clientset, kind string) {
	t.Helper()
	for range 1000 {
		if slices.ContainsFunc(client.Actions(), func(a clienttesting.Action) bool { return a.Matches("watch", kind) }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s are not watched", kind)
}

func line(second int, text string) string {
	return noon.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano) + " " + text + "\n"
}

func TestLogsOnce(t *testing.T) {
	job := liveJob(t, 3, gang.Running)
	var mu sync.Mutex
	var asked []string
	reader, _ := logCluster(t, func(pod string, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, pod+" "+r.URL.Query().Encode())
		mu.Unlock()
		if pod == "train-1" {
			http.Error(w, "the node does not answer", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, line(1, "hello")+line(2, "world"))
	}, job, livePod(job, 0, 0), livePod(job, 1, 0))
	var out, notes output
	o := logsOptions{tail: 5, since: time.Minute}
	err := o.run(t.Context(), reader, "train", nil, &printer{out: &out, notes: &notes})
	if err == nil {
		t.Error("a log that could not be read gave no error")
	}
	if diff := cmp.Diff("[rank 0] hello\n[rank 0] world\n", out.text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !notes.has("rank 2 has written nothing: no pod") || !notes.has("opening the log of rank 1 (pod train-1, container trainer)") {
		t.Errorf("not every silence is explained: %q", notes.text.String())
	}
	if want := "train-0 container=trainer&sinceSeconds=60&tailLines=5&timestamps=true"; !slices.Contains(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestLogsBound(t *testing.T) {
	job := liveJob(t, 60, gang.Running)
	var objects []runtime.Object
	for i := range 60 {
		objects = append(objects, livePod(job, i, 0))
	}
	reader, _ := logCluster(t, func(_ string, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, line(0, "hello")) },
		append(objects, job)...)
	for name, c := range map[string]struct {
		reason  string
		options logsOptions
		chosen  roster.Ranges
		lines   int
		want    string
	}{
		"too many":   {reason: "nobody reads 60 logs by mistake", want: "has 60 ranks: choose some with --rank, such as --rank 0, or print all of them with --all"},
		"all":        {reason: "asked for", options: logsOptions{all: true}, lines: 60},
		"some":       {reason: "two ranges", chosen: roster.Ranges{{0, 0}, {58, 70}}, lines: 3},
		"none there": {reason: "a rank that the gang does not have", chosen: roster.Ranges{{60, 60}}, want: "numbered from 0, and none of 60"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.tail = -1
			var out, notes output
			err := c.options.run(t.Context(), reader, "train", c.chosen, &printer{out: &out, notes: &notes})
			if got := strings.Count(out.text.String(), "\n"); got != c.lines {
				t.Errorf("%s: %d lines, want %d", c.reason, got, c.lines)
			}
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want one with %q", c.reason, err, c.want)
			}
		})
	}
	if _, err := (&logsOptions{ranks: "1", all: true}).chosen(); err == nil {
		t.Error("some and all at once gave no error")
	}
}

// TestLogsFollow follows a gang of 2 through what befalls it: rank 1 starts later, the
// connection to rank 0 breaks, rank 0 is started anew within its pod, and the gang ends.
func TestLogsFollow(t *testing.T) {
	job := liveJob(t, 2, gang.Running)
	var mu sync.Mutex
	opened := map[string]int{}
	reader, client := logCluster(t, func(pod string, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		opened[pod]++
		n := opened[pod]
		mu.Unlock()
		switch {
		case pod == "train-1":
			_, _ = io.WriteString(w, line(0, "late"))
			w.(http.Flusher).Flush()
			<-r.Context().Done() // a log that never ends
		case n == 1:
			_, _ = io.WriteString(w, line(1, "one")+line(2, "two")+line(2, "also two"))
		case n == 2:
			if got := r.URL.Query().Get("sinceTime"); got != "2026-03-01T12:00:02Z" {
				t.Errorf("opened again from %q", got)
			}
			_, _ = io.WriteString(w, line(1, "one")+line(2, "two")+line(2, "also two")+line(2, "two more")+line(3, "three"))
		default:
			_, _ = io.WriteString(w, line(9, fmt.Sprint("anew, since ", r.URL.Query().Get("sinceTime"))))
		}
	}, job, livePod(job, 0, 0))
	var out, notes output
	o := logsOptions{follow: true, tail: -1}
	ended := make(chan error, 1)
	go func() {
		ended <- o.run(t.Context(), reader, "train", nil, &printer{out: &out, notes: &notes})
	}()

	awaitWatch(t, client, "pods")
	awaitWatch(t, client, "jobs")
	out.await(t, "[rank 0] also two\n")
	_, err := client.CoreV1().Pods("team").Create(t.Context(), livePod(job, 1, 0), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "[rank 1] late\n")
	out.await(t, "[rank 0] three\n")
	if _, err := client.CoreV1().Pods("team").Update(t.Context(), livePod(job, 0, 1), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.await(t, "[rank 0] anew, since \n")
	done := job.DeepCopy()
	enter(t, done, gang.Succeeded)
	if _, err := client.BatchV1().Jobs("team").Update(t.Context(), done, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the gang ended, and with it its logs: %v", err)
		}
	case <-time.After(lastLines + 10*time.Second):
		t.Fatal("a gang that ended is followed on")
	}
	if !strings.Contains(notes.text.String(), "are not followed any further") {
		t.Errorf("it does not say that a log still goes on: %q", notes.text.String())
	}
	for _, once := range []string{"] one\n", "] two\n", "] also two\n", "] two more\n", "] three\n"} {
		if n := strings.Count(out.text.String(), once); n != 1 {
			t.Errorf("%q was printed %d times, want once", once, n)
		}
	}
}

// TestLogsSlowReader: what an ended gang has written is printed to the end, however long its reader takes.
func TestLogsSlowReader(t *testing.T) {
	t.Parallel()
	job := liveJob(t, 1, gang.Succeeded)
	reader, _ := logCluster(t, func(_ string, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, line(0, "one")+line(1, "two")+line(2, "three"))
	}, job, livePod(job, 0, 0))
	from, to := io.Pipe()
	var got []byte
	read := make(chan struct{})
	go func() {
		defer close(read)
		time.Sleep(lastLines + time.Second)
		got, _ = io.ReadAll(from)
	}()
	o := logsOptions{follow: true, tail: -1}
	if err := o.run(t.Context(), reader, "train", nil, &printer{out: to, notes: io.Discard}); err != nil {
		t.Error(err)
	}
	_ = to.Close()
	<-read
	if want := "[rank 0] one\n[rank 0] two\n[rank 0] three\n"; string(got) != want {
		t.Errorf("%q was printed, want %q", got, want)
	}
}

func TestLogsOutputGone(t *testing.T) {
	job := liveJob(t, 1, gang.Running)
	reader, _ := logCluster(t, func(_ string, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, line(0, "hello")) },
		job, livePod(job, 0, 0))
	gone, writer := io.Pipe()
	_ = gone.Close() // as head does
	o := logsOptions{follow: true, tail: -1}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := o.run(ctx, reader, "train", nil, &printer{out: writer, notes: io.Discard}); err == nil || ctx.Err() != nil {
		t.Errorf("nobody reads any more, and it went on: %v", err)
	}
}

func TestWholeLines(t *testing.T) {
	var out output
	p := &printer{out: &out, notes: io.Discard}
	var wg sync.WaitGroup
	for rank := range int32(20) {
		wg.Go(func() {
			s := source{rank: rank}
			if err := p.copyLog(p.prefix(s), strings.NewReader(strings.Repeat(line(0, strings.Repeat("x", 500)), 50)), &place{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, w := range out.writes {
		if !strings.HasPrefix(w, "[rank ") || strings.Count(w, "\n") != 1 || !strings.HasSuffix(w, "x\n") {
			t.Fatalf("not one whole line: %q", w)
		}
	}
}

func TestCopyLog(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		log    string
		from   place
		want   string
		to     place
	}{
		"lines":      {reason: "their times are taken away", log: line(1, "a") + line(2, "b"), want: "> a\n> b\n", to: place{noon.Add(2 * time.Second), 1}},
		"empty line": {reason: "it is one", log: line(1, ""), want: "> \n", to: place{noon.Add(time.Second), 1}},
		"no end of line": {reason: "the last words of a program that was killed", log: strings.TrimSuffix(line(1, "a"), "\n"), want: "> a\n",
			to: place{noon.Add(time.Second), 1}},
		"from a place": {reason: "what was printed is not printed again", log: line(1, "a") + line(2, "b") + line(2, "c") + line(3, "d"),
			from: place{noon.Add(2 * time.Second), 1}, want: "> c\n> d\n", to: place{noon.Add(3 * time.Second), 1}},
		"nothing new": {reason: "the place stays", log: line(1, "a") + line(2, "b"), from: place{noon.Add(2 * time.Second), 1}, to: place{noon.Add(2 * time.Second), 1}},
		"no time":     {reason: "a line of the kubelet's own is printed as it is", log: "unable to retrieve container logs\n", want: "> unable to retrieve container logs\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			place := c.from
			if err := (&printer{out: &out}).copyLog("> ", strings.NewReader(c.log), &place); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want || !place.at.Equal(c.to.at) || place.seen != c.to.seen {
				t.Errorf("%s: printed %q up to %+v, want %q up to %+v", c.reason, out.String(), place, c.want, c.to)
			}
		})
	}
}

func TestLongLine(t *testing.T) {
	var out output
	text := strings.Repeat("x", 3*longestLine) + "\n"
	if err := (&printer{out: &out}).copyLog("", strings.NewReader(text), &place{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(out.text.String(), "\n", ""); got != strings.TrimSuffix(text, "\n") || len(out.writes) < 3 {
		t.Errorf("a line of 3 MiB came out as %d bytes in %d parts", len(got), len(out.writes))
	}
}

func TestPrefix(t *testing.T) {
	for reason, c := range map[string]struct {
		color  bool
		source source
		want   string
	}{
		"plain":                      {source: source{rank: 3}, want: "[rank 3] "},
		"one of several containers":  {source: source{rank: 3, beside: true, containerRun: containerRun{container: "chief"}}, want: "[rank 3 chief] "},
		"coloured for a terminal":    {color: true, source: source{rank: 0}, want: "\x1b[36m[rank 0]\x1b[0m "},
		"colours come round":         {color: true, source: source{rank: 6}, want: "\x1b[36m[rank 6]\x1b[0m "},
		"neighbours are told apart ": {color: true, source: source{rank: 1}, want: "\x1b[33m[rank 1]\x1b[0m "},
	} {
		if got := (&printer{color: c.color}).prefix(c.source); got != c.want {
			t.Errorf("%s: got %q, want %q", reason, got, c.want)
		}
	}
}
