package controller

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// errJobStatusReset skips a member after the status of its Job was reset. The pass continues, but
// it writes no other member if it skips the primary member; see syncState. The event of the write
// causes the next pass, which resumes the Job.
var errJobStatusReset = errors.New("status of the Job was reset")

// errJobStatusPending skips a member whose Job controller still has to count pods before the Job is
// resumed. The pass continues as for [errJobStatusReset]. The event of the write of the Job
// controller causes the next pass.
var errJobStatusPending = errors.New("status of the Job is incomplete")

// resetJobStatus resets what the status of a suspended Job records about the last attempt, before
// the Job is resumed: the start time and the completed indexes. It returns [errJobStatusReset] if it
// wrote the status, and [errJobStatusPending] if the Job controller has to write it first.
func (r *Reconciler) resetJobStatus(ctx context.Context, m member, a action) error {
	if m.Job == nil || !m.isAboutToResume(a) {
		return nil
	}
	resetIndexes := m.hasAttemptLabel() && m.Job.Status.Succeeded > 0
	if m.hasAttemptLabel() && hasUncountedPods(m.Job) {
		return errJobStatusPending
	}
	if m.Job.Status.StartTime == nil && !resetIndexes {
		return nil
	}
	changed := m.Job.DeepCopy()
	clearStartTime(&changed.Status)
	if resetIndexes {
		clearCompletedIndexes(&changed.Status)
	}
	patch := client.MergeFromWithOptions(m.Job, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch, FieldOwner); err != nil {
		return fmt.Errorf("resetting the status of %s: %w", m.Meta().Name, err)
	}
	return errJobStatusReset
}

// clearStartTime clears the start time.
//
// The API server lets the template of a Job change only if the Job is suspended and has not started
// (KEP-2926), and the template needs a new attempt label. Before Kubernetes 1.33.6 and 1.34.2, the Job
// controller also resumed a Job with another start time, which the API server rejected, so that the
// Job never had pods again (kubernetes/kubernetes#134521). Rollcall therefore clears the start time
// of Jobs that somebody else resumes, too.
//
// From Kubernetes 1.36, the Job controller clears the start time when it suspends a Job. Kueue clears
// the start time in the same way (pkg/controller/jobs/job, Stop).
func clearStartTime(status *batchv1.JobStatus) { status.StartTime = nil }

// clearCompletedIndexes clears the completed indexes, because Kubernetes creates no pod for a
// completed index. Without the reset, the next attempt would wait indefinitely for a rank that
// exited with code 0 when its node was drained, or that succeeded before its peers failed.
//
// The API server lets the counter of an Indexed Job decrease if completions equals parallelism
// (kubernetes pkg/registry/batch/job/strategy.go), as it does for all Jobs of a gang. The Job
// controller continues from the indexes in the status (indexed_job_utils.go). See
// docs/adr/0024-restart-completed-ranks.md.
func clearCompletedIndexes(status *batchv1.JobStatus) {
	status.Succeeded, status.CompletedIndexes = 0, ""
}

// hasUncountedPods reports whether the Job controller has observed terminated pods that it has not
// added to its counters. These pods are in status.uncountedTerminatedPods. Pods that the Job
// controller has not observed are the subject of countUncountedFailures.
func hasUncountedPods(job *batchv1.Job) bool {
	uncounted := job.Status.UncountedTerminatedPods
	return uncounted != nil && len(uncounted.Succeeded)+len(uncounted.Failed) > 0
}

// hasAttemptLabel reports whether the pods of the member carry the number of their attempt, which is
// true for Jobs that Rollcall restarts.
func (m member) hasAttemptLabel() bool { return m.Template().Labels[gang.LabelAttempt] != "" }

// isAboutToResume reports whether Rollcall resumes a suspended Job by the action, or prepares the Job
// so that somebody else can resume it.
func (m member) isAboutToResume(a action) bool {
	switch a {
	case actionResume, actionReleaseToQueue:
		return isSuspendedByRollcall(m.Workload, m.lastStatus()) && m.hasAttemptLabel()
	case actionSetAttempt:
		return true
	default:
		return false
	}
}
