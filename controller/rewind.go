package controller

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// errRewound says that a Job was written so that it can be let go at the next look, which
// that write brings about.
var errRewound = errors.New("the Job's start was taken back; it is let go next")

// rewind takes back when a suspended Job started, before it is let go with the number of
// its attempt in its template. The API server lets the template of a Job change that is
// suspended and has not started (KEP-2926). From some release on the Job controller takes
// the time back by itself when it suspends a Job; 1.33 does not, so it is done as Kueue
// does it (pkg/controller/jobs/job, Stop).
func (r *Reconciler) rewind(ctx context.Context, p *party, m member, s gang.Status) error {
	if m.Job == nil || m.Job.Status.StartTime == nil || m.Template().Labels[gang.LabelAttempt] == "" ||
		!heldByUs(m.Workload, m.told()) {
		return nil
	}
	if what := wished(p, m, s.State()); what != letGo && what != handOver {
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
