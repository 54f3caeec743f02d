package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
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
	isSuspending := a == actionSuspend && !m.IsSuspended() && !m.lastStatus().SuspendedByRollcall
	if m.Job == nil || !isSuspending && !m.isAboutToResume(a) {
		return nil
	}
	isCounting := attempt.HasUncountedPods(m.Job) || m.observed.HasUncountedSuccess
	if !isSuspending && m.restartsCompleted() && isCounting {
		return errJobStatusPending
	}
	changed := m.Job.DeepCopy()
	var isReset bool
	if isSuspending {
		isReset = withdrawSuspendedCondition(changed)
	} else {
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
func withdrawSuspendedCondition(job *batchv1.Job) bool {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return false
	}
	job.Status.Conditions[i].Status = corev1.ConditionFalse
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

// removeTrackingFinalizer is a patch that keeps the other finalizers of a pod.
var removeTrackingFinalizer = client.RawPatch(types.StrategicMergePatchType,
	[]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+batchv1.JobTrackingFinalizer+`"]}}`))

// untrackDeletedPods keeps the Job of a member from completing by pods that somebody else deleted.
//
// A program that saves a checkpoint on SIGTERM and exits with code 0 succeeds as far as the Job
// controller can see. If all ranks of a Job are drained, the Job completes and cannot run again. A pod
// without the finalizer batch.kubernetes.io/job-tracking is not counted, so one untracked pod keeps
// its Job incomplete, and the restart resets the other completed indexes (see resetJobStatus). A rule of
// a successPolicy that needs fewer ranks requires more untracked pods. The Job controller removes the
// finalizer in the same way from the pods that it deletes when a Job is suspended (kubernetes
// pkg/controller/job, deleteJobPods).
//
// Pods are untracked after the phase Restarting or Failed was written to the primary member. An untracked pod may
// disappear at once, and its failure would be forgotten if the write were rejected. In the phase Failed, the Job must
// fail (see failJob). If it completed first, it would report a success that never happened. Pods that somebody deletes
// while the gang restarts matter for rules of a successPolicy, and if they are all pods of the Job. A patch that
// failed or was rejected is repeated in the next pass of the same manager: a pod on a lost node exits when the node
// returns.
//
// While one of several members is suspended, by a user or because a policy denies that Rollcall resumes it, the others
// run on, and the disruption of a pod is not a failure. Such pods are untracked when they are observed, and their Job
// replaces them.
func (r *Reconciler) untrackDeletedPods(ctx context.Context, g *observedGang, m member, next lifecycle.Phase) error {
	s, uid := g.pass.session, m.Meta().UID
	isAnySuspended := next == lifecycle.Suspended || next.Active() && g.memberStates.AnySuspended()
	var names []string
	switch {
	case next == lifecycle.Restarting || next == lifecycle.Failed:
		names = append(s.podsToUntrack[uid], namesOf(m.observed.PodsToUntrack)...)
		slices.Sort(names)
		names = slices.Compact(names) // a pod whose patch failed is observed again
	case isAnySuspended && m.restartsCompleted():
		names = namesOf(slices.DeleteFunc(slices.Clone(m.observed.PodsToUntrack), func(pod *corev1.Pod) bool {
			return !failure.IsDisrupted(pod)
		}))
	}
	delete(s.podsToUntrack, uid)
	for i, name := range names {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = m.Meta().Namespace, name
		err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, pod, removeTrackingFinalizer, FieldOwner))
		if err != nil {
			put(&s.podsToUntrack, uid, names[i:])
			return fmt.Errorf("untracking the pod %s: %w", name, err)
		}
		log.FromContext(ctx).Info("Removed the tracking finalizer of a deleted pod", "pod", name)
	}
	return nil
}

// untrackPodsEarly untracks the pods of all members after the API server rejected that the gang restarts or fails: pods
// that exit with code 0 must not complete their Job. The memory has the failure. If the manager crashes, the pod that
// replaces an untracked one shows the failure, if all ranks were ready before and the gang is not elastic.
func (r *Reconciler) untrackPodsEarly(ctx context.Context, g *observedGang, next lifecycle.Phase) {
	for _, m := range g.Members {
		g.pass.handleError(r.untrackDeletedPods(ctx, g, m, next))
	}
}

// namesOf returns the names of pods.
func namesOf(pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}
