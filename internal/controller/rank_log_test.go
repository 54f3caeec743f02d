package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/progress"
)

// logRead is the answer to one read of a log.
type logRead struct {
	text string
	err  error
	// restarts is the number of restarts of the container before the read.
	restarts int32
}

// newLogRead returns a log with a number of lines that match. Each minute has other times.
func newLogRead(minute, matches int) logRead {
	var out strings.Builder
	at := testStartTime.Add(time.Duration(minute) * time.Minute)
	fmt.Fprintf(&out, "%s another line\n", at.Format(time.RFC3339Nano))
	for i := range matches {
		fmt.Fprintf(&out, "%s step %d\n", at.Add(time.Duration(i+1)*time.Second).Format(time.RFC3339Nano), i)
	}
	return logRead{text: out.String()}
}

// newLineRead returns a log with one line.
func newLineRead(minute int, line string) logRead {
	at := testStartTime.Add(time.Duration(minute) * time.Minute)
	return logRead{text: at.Format(time.RFC3339Nano) + " " + line + "\n"}
}

// patternCluster is a cluster with a running gang of one rank that has a pattern.
type patternCluster struct {
	*testCluster
	job     *batchv1.Job
	pod     *corev1.Pod
	request Request
	// next is the answer to the next read, and options the last request.
	next    logRead
	options *corev1.PodLogOptions
	reads   int
}

func newPatternCluster(t *testing.T, annotations map[string]string) *patternCluster {
	t.Helper()
	job, pod := newProbedJob(t)
	delete(job.Annotations, gang.AnnotationProgressFile)
	job.Spec.Template.Spec.Containers[0].ReadinessProbe = nil
	job.Annotations[gang.AnnotationProgressPattern] = `step \d+|(?P<stop>Evaluating)|(?P<fault>loss nan)`
	for key, value := range annotations {
		job.Annotations[key] = value
	}
	c := &patternCluster{
		testCluster: newTestCluster(t, job, pod), job: job, pod: pod,
		request: Request{Namespace: "team", Kind: gang.Job, Name: "train"},
	}
	c.rankLogs = newRankLogReads(
		func(_ context.Context, namespace, pod string, o *corev1.PodLogOptions) (string, error) {
			if namespace != "team" || pod != "train-0" || o.Container != "trainer" || !o.Timestamps {
				t.Errorf("the log of %s/%s is read with %+v", namespace, pod, o)
			}
			c.options, c.reads = o, c.reads+1
			return c.next.text, c.next.err
		})
	c.setPodReady(t, pod, true)
	c.reconcileOnce(t, c.request) // creates the Service
	c.reconcileOnce(t, c.request)
	return c
}

// readLog reads the log in the next minute, and returns the status after it.
func (c *patternCluster) readLog(t *testing.T, answer logRead) lifecycle.Status {
	t.Helper()
	c.awaitReads()
	c.clock.SetTime(c.clock.Now().Add(logReadInterval))
	c.next = answer
	if answer.restarts > 0 {
		c.pod.Status.ContainerStatuses[0].RestartCount = answer.restarts
		c.pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
		trimmed := trimPod(c.pod)
		trimmed.ResourceVersion = ""
		if err := c.Status().Update(t.Context(), trimmed); err != nil {
			t.Fatal(err)
		}
	}
	if delay := c.reconcileOnce(t, c.request); delay <= 0 || delay > logReadInterval {
		t.Errorf("the next pass is due in %s", delay)
	}
	c.awaitReads()
	c.reconcileOnce(t, c.request)
	return c.status(t)
}

func (c *patternCluster) status(t *testing.T) lifecycle.Status {
	t.Helper()
	var job batchv1.Job
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(c.job), &job); err != nil {
		t.Fatal(err)
	}
	return lifecycle.ReadStatus(gang.Workload{Job: &job})
}

// awaitReads waits until no read runs.
func (c *patternCluster) awaitReads() {
	for range maxConcurrentReads {
		c.rankLogs.slots <- struct{}{}
	}
	for range maxConcurrentReads {
		<-c.rankLogs.slots
	}
}

// TestSilentRank checks what a gang does whose log is read once a minute, with a timeout of 100 seconds.
func TestSilentRank(t *testing.T) {
	forbidden := logRead{err: apierrors.NewForbidden(corev1.Resource("pods/log"), "train-0", errors.New("no permission"))}
	const faultMessage = " 0 printed a line that matches the group fault of the progress pattern"
	const silence = " 0 printed no line that matches the progress pattern for 100s"
	for name, c := range map[string]struct {
		action gang.StallAction
		policy gang.RestartPolicy
		reads  []logRead
		want   gang.Reason
		// wantMatches is the number of lines that are remembered; not compared if it is 0.
		wantMatches int
		// message replaces that of a silent rank.
		message string
	}{
		"lines that match": {
			reads: []logRead{newLogRead(1, 2), newLogRead(2, 1), newLogRead(3, 1)}, want: gang.ReasonGangRunning, wantMatches: 4,
		},
		"a program that has not printed a line yet": {
			action: gang.StallRestart, reads: make([]logRead, 9), want: gang.ReasonGangRunning,
		},
		"a minute without a line": {
			reads: []logRead{newLogRead(1, 1), newLogRead(2, 0)}, want: gang.ReasonGangRunning,
		},
		"two minutes without a line": {
			reads: []logRead{newLogRead(1, 1), newLogRead(2, 0), newLogRead(3, 0)}, want: gang.ReasonStalled,
		},
		"a line ends the stall": {
			reads: []logRead{newLogRead(1, 1), {}, {}, newLogRead(4, 1)}, want: gang.ReasonGangRunning,
		},
		"lines that were read before do not count": {
			reads: []logRead{newLogRead(1, 3), newLogRead(1, 3), newLogRead(1, 3)}, want: gang.ReasonStalled, wantMatches: 3,
		},
		"a log that cannot be read is not a stall": {
			action: gang.StallRestart,
			reads:  []logRead{newLogRead(1, 3), forbidden, forbidden, forbidden}, want: gang.ReasonGangRunning,
		},
		"a log that can be read again continues": {
			reads: []logRead{newLogRead(1, 3), forbidden, forbidden, {}}, want: gang.ReasonStalled,
		},
		"a log with more lines than are read shows progress": {
			action: gang.StallRestart,
			reads:  []logRead{newLogRead(1, 3), {}, {text: strings.Repeat("x", progress.MaxLogBytes)}, {}},
			want:   gang.ReasonGangRunning,
		},
		"two lines and the action restart": {
			action: gang.StallRestart, reads: []logRead{newLogRead(1, 2), {}, {}}, want: gang.ReasonGangRestarting,
		},
		"one line and the action restart": {
			action: gang.StallRestart, reads: []logRead{newLogRead(1, 1), {}, {}}, want: gang.ReasonStalled,
		},
		"a policy by which Rollcall does not restart the gang": {
			action: gang.StallRestart, policy: gang.RestartPolicyPod, reads: []logRead{newLogRead(1, 2), {}, {}},
			want: gang.ReasonStalled,
		},
		"a policy by which the gang fails": {
			action: gang.StallRestart, policy: gang.RestartPolicyNever, reads: []logRead{newLogRead(1, 2), {}, {}},
			want: gang.ReasonGangFailed,
		},
		"a program that stopped on purpose": {
			action: gang.StallRestart, reads: []logRead{newLogRead(1, 2), newLineRead(2, "Evaluating"), {}, {}},
			want: gang.ReasonGangRunning,
		},
		"a program that goes on after it stopped on purpose": {
			action: gang.StallRestart,
			reads:  []logRead{newLineRead(1, "Evaluating"), newLogRead(2, 2), {}, {}}, want: gang.ReasonGangRestarting,
		},
		"a fault and the action restart": {
			action: gang.StallRestart, reads: []logRead{newLineRead(1, "loss nan")}, want: gang.ReasonGangRestarting,
			message: faultMessage,
		},
		"a fault and the action report": {
			reads: []logRead{newLineRead(1, "loss nan"), newLogRead(2, 1)}, want: gang.ReasonStalled, message: faultMessage,
		},
		"a container that was restarted has to print a line again": {
			action: gang.StallReport, policy: gang.RestartPolicyPod,
			reads: []logRead{newLogRead(1, 2), {restarts: 1}, {}, {}}, want: gang.ReasonGangRunning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{gang.AnnotationStallAction: string(gang.StallReport)}
			if c.action != "" {
				annotations[gang.AnnotationStallAction] = string(c.action)
			}
			if c.policy != "" {
				annotations[gang.AnnotationRestartPolicy] = string(c.policy)
			}
			w := newPatternCluster(t, annotations)
			var got lifecycle.Status
			for _, answer := range c.reads {
				got = w.readLog(t, answer)
			}
			if w.reads != len(c.reads)+1 {
				t.Errorf("%d reads in %d minutes", w.reads, len(c.reads))
			}
			message := cmp.Or(c.message, silence)
			if got.Reason != c.want {
				t.Fatalf("the reason is %s: %s, want %s", got.Reason, got.Message, c.want)
			}
			if c.wantMatches > 0 && w.sessions.forRequest(w.request).rankLog.Matches != c.wantMatches {
				t.Errorf("%d lines, want %d", w.sessions.forRequest(w.request).rankLog.Matches, c.wantMatches)
			}
			if c.want == gang.ReasonStalled && (got.Message != "Rank"+message || got.Phase != lifecycle.Running) {
				t.Errorf("phase %s, message %q", got.Phase, got.Message)
			}
			f := got.FirstFailure
			isFailure := c.want == gang.ReasonGangRestarting || c.want == gang.ReasonGangFailed
			if (f != nil) != isFailure || isFailure && (f.Reason != failure.ReasonStalled || f.Rank != -1 ||
				f.Message != "rank"+message || f.IsDisruption()) {
				t.Errorf("the first failure is %+v", f)
			}
			if c.want == gang.ReasonGangRestarting && (got.Restarts != 1 || got.Disruptions != 0) {
				t.Errorf("%d restarts, %d disruptions", got.Restarts, got.Disruptions)
			}
		})
	}
}

// TestRankLogOptions checks how much of a log is read.
func TestRankLogOptions(t *testing.T) {
	c := newPatternCluster(t, nil)
	c.awaitReads()
	if o := c.options; o.SinceSeconds != nil || *o.LimitBytes != progress.MaxLogBytes {
		t.Errorf("the first read has the options %+v", o)
	}
	c.readLog(t, newLogRead(1, 1))
	if o := c.options; !ptr.Equal(o.SinceSeconds, ptr.To[int64](70)) {
		t.Errorf("the next read has the options %+v", o)
	}
	c.readLog(t, logRead{err: errors.New("no answer")})
	c.readLog(t, newLogRead(3, 1))
	if o := c.options; !ptr.Equal(o.SinceSeconds, ptr.To[int64](130)) {
		t.Errorf("the read after an error has the options %+v", o)
	}
}

// TestChangedPattern checks that a changed pattern has to match first, as in a new attempt.
func TestChangedPattern(t *testing.T) {
	c := newPatternCluster(t, map[string]string{gang.AnnotationStallAction: string(gang.StallRestart)})
	c.readLog(t, newLogRead(1, 3))
	var job batchv1.Job
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(c.job), &job); err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationProgressPattern] = "sttep"
	if err := c.Update(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	for minute := range 4 {
		if s := c.readLog(t, newLogRead(minute+2, 1)); s.Reason != gang.ReasonGangRunning {
			t.Errorf("the reason is %s: %s", s.Reason, s.Message)
		}
	}
}

// TestLogReader checks the request for a log, and that a node cannot send more than was asked for.
func TestLogReader(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/team/pods/train-0/log" && r.URL.RawQuery == "limitBytes=5&timestamps=true" {
			_, _ = io.WriteString(w, "1234567")
		} else {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	read, err := newLogReader(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o := &corev1.PodLogOptions{LimitBytes: ptr.To[int64](5), Timestamps: true}
	if text, err := read(t.Context(), "team", "train-0", o); text != "12345" || err != nil {
		t.Errorf("the log is %q, error %v", text, err)
	}
	if _, err := read(t.Context(), "team", "train-1", o); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want that the pod does not exist", err)
	}
}

// TestRankLogIsReadRarely checks that passes do not wait for a read, that a log is read once in a minute, and that the
// number of reads at the same time is limited.
func TestRankLogIsReadRarely(t *testing.T) {
	job, pod := newProbedJob(t)
	job.Annotations[gang.AnnotationProgressPattern] = "step"
	w, request := newTestCluster(t, job, pod), Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.setPodReady(t, pod, true)
	w.reconcileOnce(t, request)
	w.reconcileOnce(t, request)
	release, started := make(chan struct{}), make(chan struct{}, 10)
	w.rankLogs = newRankLogReads(func(context.Context, string, string, *corev1.PodLogOptions) (string, error) {
		started <- struct{}{}
		<-release
		return "", nil
	})
	for range maxConcurrentReads { // reads of other gangs
		w.rankLogs.slots <- struct{}{}
	}
	if delay := w.reconcileOnce(t, request); delay != logResultDelay || len(started) > 0 {
		t.Errorf("with too many reads, the next pass is due in %s", delay)
	}
	<-w.rankLogs.slots
	for range 5 {
		if delay := w.reconcileOnce(t, request); delay != logResultDelay {
			t.Errorf("while the log is read, the next pass is due in %s", delay)
		}
	}
	<-started
	close(release)
	w.rankLogs.slots <- struct{}{} // waits for the end of the read
	<-w.rankLogs.slots
	if delay := w.reconcileOnce(t, request); delay != logReadInterval || len(started) > 0 {
		t.Errorf("after a read, the next pass is due in %s", delay)
	}
}
