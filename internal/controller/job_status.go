package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
)

// errJobStatusReset skips a member after the status of its Job was reset. The pass continues, but
// it writes no other member if it skips the primary member; see syncState. The event of the write
// causes the next pass, which resumes or suspends the Job.
var errJobStatusReset = errors.New("status of the Job was reset")

// errJobStatusPending skips a member whose Job controller still has to count pods before the Job is
// resumed. The pass continues as for [errJobStatusReset]. The events of the writes of the Job
// controller to the Job and its pods cause the next pass.
var errJobStatusPending = errors.New("status of the Job is incomplete")

// resetJobStatus resets what the status of a Job records about the last attempt: the start time and the completed
// indexes of a suspended Job before it is resumed, or the condition Suspended of a running Job before it is suspended.
// It returns [errJobStatusReset] if it wrote the status, and [errJobStatusPending] if the Job controller has to write
// it first.
func (r *Reconciler) resetJobStatus(ctx context.Context, m member, a action) error {
	if m.Job == nil || a != actionSuspend && !m.isAboutToResume(a) {
		return nil
	}
	changed, isReset := m.Job.DeepCopy(), false
	switch {
	case a == actionSuspend:
		isReset = m.withdrawSuspendedCondition(changed)
	case m.restartsCompleted() && (attempt.HasUncountedPods(m.Job) || m.observed.HasUncountedSuccess):
		return errJobStatusPending
	default:
		isReset = attempt.ResetJobStatus(changed, m.restartsCompleted())
	}
	if !isReset {
		return nil
	}
	patch := client.MergeFromWithOptions(m.Job, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch, FieldOwner); err != nil {
		return fmt.Errorf("resetting the status of %s: %w", m.Meta().Name, err)
	}
	return errJobStatusReset
}

// withdrawSuspendedCondition sets the condition Suspended of a Job to false before Rollcall suspends the Job, if it
// is still true from a suspension before. The Job controller has then not written the status since the Job was
// resumed, but it may have created pods. Only a condition that it sets again shows that it terminates these pods.
// The function reports whether it changed the status.
func (m member) withdrawSuspendedCondition(changed *batchv1.Job) bool {
	if m.IsSuspended() || m.lastStatus().SuspendedByRollcall {
		return false
	}
	i := slices.IndexFunc(changed.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return false
	}
	changed.Status.Conditions[i].Status = corev1.ConditionFalse
	return true
}

// restartsCompleted reports whether the next attempt of a Job includes the ranks that have completed: always, unless
// the controller of the workload restarts ranks individually.
func (m member) restartsCompleted() bool {
	return m.Result != nil && m.Result.Gang.RestartRules.RestartPolicy != gang.RestartPolicyPod
}

// isAboutToResume reports whether Rollcall resumes a suspended Job by the action, or prepares the Job
// so that somebody else can resume it.
func (m member) isAboutToResume(a action) bool {
	switch a {
	case actionResume, actionReleaseToQueue:
		hasState := attempt.HasLabel(m.Workload) || m.Job.Status.Succeeded > 0
		return isSuspendedByRollcall(m.Workload, m.lastStatus()) && hasState
	case actionSetAttempt:
		return true
	case actionAwaitQueue: // Kueue clears the start time itself
		return m.restartsCompleted() && m.Job.Status.Succeeded > 0
	default:
		return false
	}
}
