package controller

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// errRewound says that a Job was written so that it can be let go; the next look, which that write brings about, goes on.
var errRewound = errors.New("the Job's start was taken back")

// rewind takes back when a Job started that rests suspended. Before its template gets the number of its attempt, since the
// API server lets the template of a Job change that is suspended and has not started (KEP-2926). And when another holds it
// back, since before Kubernetes 1.33.6 and 1.34.2 the Job controller began a Job that is let go with another time, which the
// API server refused, so that it never had pods again (kubernetes/kubernetes#134521). From 1.36 on the Job controller takes
// the time back when it suspends a Job, and nothing is written here; before, it is done as Kueue does it
// (pkg/controller/jobs/job, Stop).
func (r *Reconciler) rewind(ctx context.Context, p *party, m member, s gang.Status) error {
	if m.Job == nil || m.Job.Status.StartTime == nil || !rests(p, m, s) {
		return nil
	}
	changed := m.Job.DeepCopy()
	changed.Status.StartTime = nil
	patch := client.MergeFromWithOptions(m.Job, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch, FieldOwner); err != nil {
		return fmt.Errorf("taking back when %s started: %w", m.Meta().Name, err)
	}
	return errRewound
}

// rests reports whether a Job is suspended and about to be let go, by us or by another.
func rests(p *party, m member, s gang.Status) bool {
	switch wished(p, m, s.State()) {
	case letGo, handOver:
		return heldByUs(m.Workload, m.told()) && m.Template().Labels[gang.LabelAttempt] != ""
	case mark:
		return true
	default:
		return false
	}
}
