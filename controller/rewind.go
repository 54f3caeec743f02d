package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// errRewound says that a Job was written so that its template can change at the next look, which
// that write brings about.
var errRewound = errors.New("the Job's start was taken back; its template can change at the next look")

// rewind takes back when a suspended Job started, before it is let go with the number of
// its attempt in its template, or gets that number while its user holds it back. The API server lets the template of a Job change that is
// suspended and has not started (KEP-2926). From some release on the Job controller takes
// the time back by itself when it suspends a Job; 1.33 does not, so it is done as Kueue
// does it (pkg/controller/jobs/job, Stop).
func (r *Reconciler) rewind(ctx context.Context, p *party, m member, s gang.Status) error {
	if m.Job == nil || m.Job.Status.StartTime == nil || m.Template().Labels[gang.LabelAttempt] == "" {
		return nil
	}
	switch what := wished(p, m, s.State()); {
	case what == letGo && heldByUs(m.Workload, m.told()):
	case what == mark && m.Template().Labels[gang.LabelAttempt] != strconv.Itoa(int(s.Attempt)):
	default:
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
