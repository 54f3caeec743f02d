package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/progress"
)

// withPattern sets the pattern of the tests.
func withPattern(job *batchv1.Job) {
	job.Annotations[gang.AnnotationContainers] = "trainer"
	job.Annotations[gang.AnnotationProgressPattern] = `step (?P<step>\d+)/(?P<total>\d+)`
}

// newStepLog returns the log of a program that prints a step every 10 seconds.
func newStepLog(steps ...int) []byte {
	var out strings.Builder
	for i, step := range steps {
		at := testTime.Add(time.Duration(i) * 10 * time.Second).Format(time.RFC3339Nano)
		fmt.Fprintf(&out, "%s step %d/5000\n", at, step)
	}
	return []byte(out.String())
}

// newLogClient returns a client whose logs are a text, or an error.
func newLogClient(log []byte, err error, objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	client.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "log", &runtime.Unknown{Raw: log}, err
	})
	return client
}

// countLogRequests returns the number of logs that a client read.
func countLogRequests(client *fake.Clientset) int {
	isOther := func(a clienttesting.Action) bool { return a.GetSubresource() != "log" }
	return len(slices.DeleteFunc(client.Actions(), isOther))
}

// TestAddProgress checks for which gangs the log of rank 0 is read, and what it shows.
func TestAddProgress(t *testing.T) {
	running := func(name string, isRunning bool) corev1.PodStatus {
		status := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: name}}}
		if isRunning {
			status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		}
		return status
	}
	for name, c := range map[string]struct {
		hasNoPattern bool
		phase        lifecycle.Phase // Running if empty
		rank         int
		status       corev1.PodStatus
		log          []byte
		err          error
		want         *progress.Progress
		wantRequests int
		wantWarning  string
	}{
		"rank 0 prints steps": {
			status: running("trainer", true), log: newStepLog(1190, 1200), wantRequests: 1, want: &progress.Progress{
				Matches: 2, LastTime: testTime.Add(10 * time.Second), Step: ptr.To(1200.0), Total: ptr.To(5000.0),
				Rate: 1, RemainingSeconds: ptr.To[int64](3800),
			},
		},
		"no line matches":          {status: running("trainer", true), log: []byte("loading\n"), wantRequests: 1},
		"a gang without a pattern": {status: running("trainer", true), hasNoPattern: true},
		"a gang that has finished": {status: running("trainer", true), phase: lifecycle.Failed},
		"a container that starts":  {status: running("trainer", false)},
		"rank 0 has no pod":        {status: running("trainer", true), rank: 1},
		"a user without permission": {
			status: running("trainer", true), wantRequests: 1,
			err:         apierrors.NewForbidden(corev1.Resource("pods/log"), "train-0", nil),
			wantWarning: "The progress is not shown: you are not allowed to read logs in this namespace",
		},
		"a node that does not respond": {
			status: running("trainer", true), err: apierrors.NewServiceUnavailable("no route"), wantRequests: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := []func(*batchv1.Job){withPattern}
			if c.hasNoPattern {
				options = nil
			}
			job := newAdmittedJob(t, "train", "pytorch", 2, options...)
			if c.phase == "" {
				c.phase = lifecycle.Running
			}
			setStatus(t, job, newStatus(c.phase))
			client := newLogClient(c.log, c.err, job, newPod(job, c.rank, c.status))
			r := newReader(client)
			g, err := r.GetGang(t.Context(), "train")
			if err != nil {
				t.Fatal(err)
			}
			r.addProgress(t.Context(), &g)
			if diff := cmp.Diff(c.want, g.Progress); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if n := countLogRequests(client); n != c.wantRequests {
				t.Errorf("%d logs were read, want %d", n, c.wantRequests)
			}
			if got := strings.Join(g.Warnings, "\n"); got != c.wantWarning {
				t.Errorf("warning %q, want %q", got, c.wantWarning)
			}
		})
	}
}

func TestFormatProgress(t *testing.T) {
	for want, p := range map[string]progress.Progress{
		"Step 1200 of 5000, 34m left (printed 5s ago)": {
			Step: ptr.To(1200.0), Total: ptr.To(5000.0), Rate: 1.86, RemainingSeconds: ptr.To[int64](2043),
		},
		"Step 1200 of 5000 (printed 5s ago)":               {Step: ptr.To(1200.0), Total: ptr.To(5000.0)},
		"Step 0.35, 1.9 steps per second (printed 5s ago)": {Step: ptr.To(0.35), Rate: 1.86},
		"Step 7, one step in 12s (printed 5s ago)":         {Step: ptr.To(7.0), Rate: 0.083},
		"Progress, one line in 20s (printed 5s ago)":       {Rate: 0.05},
		"Progress (printed 5s ago)":                        {},
	} {
		p.LastTime = testTime.Add(-5 * time.Second)
		if got := (PrintOptions{Now: testTime}).formatProgress(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWatchRepeats checks that a gang whose log shows its progress is read again although nothing else changes.
func TestWatchRepeats(t *testing.T) {
	job := setStatus(t, newAdmittedJob(t, "train", "pytorch", 1, withPattern), newStatus(lifecycle.Running))
	r := newReader(newLogClient(nil, nil, job, newPod(job, 0, readyStatus)))
	r.LogInterval = time.Millisecond
	calls := 0
	err := r.Watch(t.Context(), "train", time.Millisecond, func([]Gang) error {
		if calls++; calls == 5 { // more than the informers cause
			return ErrDeleted
		}
		return nil
	})
	if calls != 5 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}
