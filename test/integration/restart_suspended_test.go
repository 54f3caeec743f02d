package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// stopping lets a rank fall and returns while the gang is stopped for it: one pod takes its time to go.
func (r *trainee) stopping(falls, lasts string) func() {
	r.t.Helper()
	p := r.pod(lasts)
	r.keeps(p)
	r.falls(r.pod(falls), 3)
	r.reaches(gang.Restarting, 1)
	return func() { r.lets(p) }
}

func (r *trainee) get(name string) *batchv1.Job {
	r.t.Helper()
	j, err := r.Client.BatchV1().Jobs(r.ns).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// resumes lets a Job go that is suspended. Before Kubernetes 1.36, one never has pods again that is let go before its start
// time is taken back: kubernetes#134521.
func (r *trainee) resumes(name string) {
	r.t.Helper()
	eventually(r.t, "the start of "+name+" to be taken back", func(context.Context) error {
		if at := r.get(name).Status.StartTime; at != nil {
			return errors.New("it started at " + at.String())
		}
		return nil
	})
	r.patchJob(name, `{"spec":{"suspend":false}}`)
}

// testRestartSuspendedMeanwhile: a user who suspends a Job that Rollcall has suspended for a restart has it stay so, and
// lets it begin anew when it pleases.
func testRestartSuspendedMeanwhile(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3))
	before := r.alive()
	goes := r.stopping("worker-1", "worker-0")
	r.patchJob("train", `{"spec":{"suspend":true}}`)
	r.reaches(gang.Suspended, 1)
	goes()
	r.stays(4 * time.Second)
	if !ptr.Deref(r.get("train").Spec.Suspend, false) {
		t.Error("the Job was let go")
	}
	r.resumes("train")
	s := r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	if s.Cause == nil || s.Cause.Rank != 1 {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.stays(2 * time.Second)
	r.falls(r.pod("worker-2"), 3)
	r.reaches(gang.Running, 2)
}

// testRestartOneSuspended: one member of several that is suspended holds all of them back.
func testRestartOneSuspended(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, masterAndWorkers()...)
	before := r.alive()
	goes := r.stopping("worker-1", "worker-0")
	r.patchJob("train-worker", `{"spec":{"suspend":true}}`)
	r.reaches(gang.Suspended, 1)
	goes()
	r.stays(4 * time.Second)
	for _, name := range r.jobs {
		if !ptr.Deref(r.get(name).Spec.Suspend, false) {
			t.Errorf("%s was let go", name)
		}
	}
	r.resumes("train-worker")
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}
