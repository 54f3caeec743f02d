package integration

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// deleted takes some ranks of a gang away together, by one call.
func (r *trainee) deleted(first, count int) {
	r.t.Helper()
	var indexes []string
	for i := range count {
		indexes = append(indexes, strconv.Itoa(first+i))
	}
	err := r.Client.CoreV1().Pods(r.ns).DeleteCollection(r.t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: batchv1.JobCompletionIndexAnnotation + " in (" + strings.Join(indexes, ",") + ")"})
	if err != nil {
		r.t.Fatal(err)
	}
}

// counted logs what the Job counts.
func (r *trainee) counted(begin time.Time) {
	all, err := r.workloads(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	s := gang.StatusOf(all[0])
	r.t.Logf("%s of attempt %d after %.1f s; the Job counts %d failed pods", s.Phase, s.Attempt, time.Since(begin).Seconds(), all[0].Job.Status.Failed)
}

// testRestartManyDeleted: ranks that are taken away together are one incident, and the gang waits no longer for many of
// them than for one.
func testRestartManyDeleted(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(8))
	before, begin := r.alive(), time.Now()
	r.deleted(0, 8)
	r.reaches(gang.Running, 1)
	r.counted(begin)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}

// testRestartOftenDeleted: a gang outlives more deleted pods than the 6 of the API server's default backoffLimit.
func testRestartOftenDeleted(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(15, gang.AnnotationMaxRestarts, "5"))
	for incident := range int32(3) {
		begin := time.Now()
		r.deleted(5*int(incident), 5) // others each time, whose wait does not depend on those before
		r.reaches(gang.Running, incident+1)
		r.counted(begin)
	}
	r.stays(2 * time.Second)
	for name := range r.alive() {
		r.ends(r.pod(name))
	}
	r.reaches(gang.Succeeded, 3)
	// How many of the 15 the Job counts depends on how soon it was suspended.
	if all, err := r.workloads(t.Context()); err != nil || *all[0].Job.Spec.BackoffLimit != gang.NoLimit {
		t.Errorf("%v, %v", all[0].Job.Spec.BackoffLimit, err)
	}
}

// testRestartTooOftenDeleted: and no more often than max-restarts says.
func testRestartTooOftenDeleted(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(4, gang.AnnotationMaxRestarts, "1"))
	r.deleted(0, 4)
	r.reaches(gang.Running, 1)
	second := r.alive()
	r.deleted(0, 1)
	s := r.reaches(gang.Failed, 1)
	if c := s.Cause; c == nil || c.Rank != 0 || c.Reason != gang.FallDeleted || c.Pod != second["worker-0"].Name {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.jobFailed("train")
	r.gone("worker")
	r.stays(time.Second)
}

// testRestartOwnBackoff: a limit that the user wrote stays, and is the number of restarts too, though the Job counts its
// failed pods otherwise by now.
func testRestartOwnBackoff(t *testing.T, m *manager, ns string) {
	w := training(4)
	w.Job.Spec.BackoffLimit = ptr.To[int32](1)
	r := m.trains(t, ns, w)
	r.falls(r.pod("worker-0"), 1)
	r.reaches(gang.Running, 1)
	r.falls(r.pod("worker-0"), 1)
	r.reaches(gang.Failed, 1)
	if j := r.jobFailed("train"); *j.Spec.BackoffLimit != 1 || *j.Spec.BackoffLimitPerIndex != gang.NoLimit {
		t.Errorf("the limits are %d, and %d for each rank", *j.Spec.BackoffLimit, *j.Spec.BackoffLimitPerIndex)
	}
}
