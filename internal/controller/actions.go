package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/lifecycle"
)

// action is a change of the spec of a member. It has no effect on a member that is in the desired
// state.
type action int

const (
	// actionNone leaves the spec as it is.
	actionNone action = iota
	// actionSuspend suspends the member, which terminates its pods.
	actionSuspend
	// actionResume resumes a member that Rollcall suspended.
	actionResume
	// actionReleaseToQueue makes the queue of a Job responsible for resuming it.
	actionReleaseToQueue
	// actionFail fails a Job, or suspends a StatefulSet.
	actionFail
	// actionSetAttempt sets the attempt label in the template of a Job that somebody else suspended.
	// For a Job in a queue, admission sets the label when the queue resumes the Job.
	actionSetAttempt
	// actionAwaitQueue leaves a Job to its queue, after its completed indexes were reset. The spec stays as it
	// is, because Kueue restores the template of an evicted Job in every pass.
	actionAwaitQueue
	// actionComplete terminates the pods of a member whose gang finished while it was running.
	actionComplete
)

// actionFunc applies an action to a workload. It returns whether it changed the spec. If it did, it
// also sets SuspendedByRollcall of the status that is written with the spec. last is the status that
// was last written to the workload.
type actionFunc func(w gang.Workload, status *lifecycle.Status, last lifecycle.Status) bool

var actionFuncs = map[action]actionFunc{
	actionSuspend:        suspendMember,
	actionResume:         resumeMember,
	actionReleaseToQueue: releaseMemberToQueue,
	actionFail:           failMember,
	actionSetAttempt:     setMemberAttempt,
	actionComplete:       completeMember,
}

// desiredAction returns the action that brings a member to the state of its gang.
func desiredAction(g *observedGang, m member, s lifecycle.State) action {
	observed := m.observeStatus()
	switch {
	case observed.HasResult() || m.IsManagedExternally():
		return actionNone
	case s.Phase.Terminal():
		return desiredActionAfterFinish(g, s)
	case s.Phase == lifecycle.Restarting:
		return actionSuspend
	case s.Phase == lifecycle.Suspended:
		return desiredActionWhileSuspended(g, observed)
	case observed.ManagedByQueue && observed.SuspendedByRollcall:
		return actionReleaseToQueue
	default:
		return actionResume
	}
}

// desiredActionAfterFinish returns the action for a member that has not finished although its gang
// has. A gang that Rollcall failed is always terminated. If the controller of a workload ended the
// gang, the user may keep the other pods.
func desiredActionAfterFinish(g *observedGang, s lifecycle.State) action {
	switch {
	case s.Phase == lifecycle.Failed && s.FirstFailure != nil:
		return actionFail
	case g.gangPolicies().CleanPodPolicy == gang.CleanPodPolicyNone:
		return actionNone
	case s.Phase == lifecycle.Failed:
		return actionFail
	default:
		return actionComplete
	}
}

// desiredActionWhileSuspended returns the action for a member of a gang that a user or a queue
// suspended.
func desiredActionWhileSuspended(g *observedGang, observed lifecycle.Observation) action {
	switch {
	case !observed.SuspensionObserved:
		return actionNone
	case !observed.ManagedByQueue, g.isQueued() && !observed.SuspendedByRollcall:
		return actionSetAttempt
	case observed.SuspendedByRollcall && !g.memberStates.AnySuspendedByUser():
		return actionReleaseToQueue
	case !observed.SuspendedByRollcall:
		return actionAwaitQueue
	default:
		return actionNone
	}
}

// applyAction changes the spec of a member and writes the status by the same patch, so that a manager
// that takes over after a crash finds either both or neither. It reports whether there was something
// to write.
func (r *Reconciler) applyAction(ctx context.Context, m member, a action, status lifecycle.Status) (bool, error) {
	changed := m.DeepCopy()
	if !mutateWorkload(changed, a, &status, m.lastStatus()) {
		return false, nil
	}
	if a == actionResume || a == actionReleaseToQueue || a == actionSetAttempt {
		r.preferOtherNodes(m, changed, &status)
	}
	if err := status.WriteTo(changed); err != nil {
		return false, err
	}
	patch := client.MergeFromWithOptions(m.clientObject(), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed.Object().(client.Object), patch, FieldOwner); err != nil {
		return false, fmt.Errorf("updating %s for phase %s: %w", m.Meta().Name, status.Phase, err)
	}
	log.FromContext(ctx).Info("Updated the spec of a member", "phase", status.Phase, "attempt", status.Attempt,
		"member", m.Meta().Name, "suspendedByRollcall", status.SuspendedByRollcall)
	return true, nil
}

// mutateWorkload applies an action to a workload and sets SuspendedByRollcall of the status. It
// reports whether it changed the spec.
func mutateWorkload(w gang.Workload, a action, status *lifecycle.Status, last lifecycle.Status) bool {
	status.SuspendedByRollcall = staysSuspendedByRollcall(w, last, status.Phase)
	status.MemberNodes = last.MemberNodes
	apply, ok := actionFuncs[a]
	return ok && apply(w, status, last)
}

// isSuspendedByRollcall reports whether a workload is suspended and Rollcall suspended it.
func isSuspendedByRollcall(w gang.Workload, last lifecycle.Status) bool {
	return last.SuspendedByRollcall && w.IsSuspended()
}

// staysSuspendedByRollcall reports whether the status continues to record that Rollcall suspended a
// workload. If somebody else resumed the workload, the record stays until the gang has left the phase
// for which it was suspended.
func staysSuspendedByRollcall(w gang.Workload, last lifecycle.Status, phase lifecycle.Phase) bool {
	return last.SuspendedByRollcall && (w.IsSuspended() || phase == lifecycle.Restarting || phase.Terminal())
}

// suspendMember suspends a workload. It does not suspend a workload that somebody else resumed,
// because the two controllers would otherwise change the workload alternately.
func suspendMember(w gang.Workload, status *lifecycle.Status, last lifecycle.Status) bool {
	if w.IsSuspended() || last.SuspendedByRollcall {
		return false
	}
	status.SuspendedByRollcall = true
	attempt.Suspend(w)
	return true
}

// resumeMember resumes a workload that Rollcall suspended.
func resumeMember(w gang.Workload, status *lifecycle.Status, last lifecycle.Status) bool {
	if !isSuspendedByRollcall(w, last) {
		return false
	}
	status.SuspendedByRollcall = false
	excludeNodes(w, status)
	return attempt.Resume(w, status.Attempt)
}

// releaseMemberToQueue leaves a Job suspended and no longer records that Rollcall suspended it. The
// queue can then resume the Job.
func releaseMemberToQueue(w gang.Workload, status *lifecycle.Status, last lifecycle.Status) bool {
	if !isSuspendedByRollcall(w, last) {
		return false
	}
	status.SuspendedByRollcall = false
	excludeNodes(w, status)
	w.SetAttempt(status.Attempt)
	return true
}

// setMemberAttempt sets the attempt label of a Job that somebody else will resume.
func setMemberAttempt(w gang.Workload, status *lifecycle.Status, _ lifecycle.Status) bool {
	isExcluding := excludeNodes(w, status)
	return w.SetAttempt(status.Attempt) || isExcluding
}

// excludeNodes makes the pods of a suspended Job avoid the nodes that the gang avoids, and records them in the status.
// It reports whether the template changed.
func excludeNodes(w gang.Workload, status *lifecycle.Status) bool {
	before, after := status.ExcludedNodes, status.AvoidedNodes()
	if w.Job == nil || slices.Equal(before, after) {
		return false
	}
	w.ReplaceExcludedNodes(before, after)
	status.ExcludedNodes = after
	return true
}

// completeMember completes a Job, or suspends a workload that cannot complete: a StatefulSet, or a Job
// with a successPolicy. The policy is immutable and names indexes, or a number of indexes, which must be
// lower than completions (kubernetes pkg/apis/batch/validation).
func completeMember(w gang.Workload, status *lifecycle.Status, last lifecycle.Status) bool {
	if w.Job == nil || w.Job.Spec.SuccessPolicy != nil {
		return suspendMember(w, status, last)
	}
	status.SuspendedByRollcall = false
	return completeJobWithoutPods(w)
}

// failMember fails a Job, or suspends a StatefulSet, which cannot fail.
func failMember(w gang.Workload, status *lifecycle.Status, _ lifecycle.Status) bool {
	if w.Job != nil {
		status.SuspendedByRollcall = false
		return failJob(w)
	}
	if w.IsSuspended() {
		return false
	}
	status.SuspendedByRollcall = true
	attempt.Suspend(w)
	return true
}

// completeJobWithoutPods sets parallelism and completions of a Job to 0, which completes the Job. The
// completions of an Indexed Job may change with its parallelism (KEP-3715). The Job controller then
// adds the condition Complete, and the time to live of the Job starts.
func completeJobWithoutPods(w gang.Workload) bool {
	spec, none := &w.Job.Spec, ptr.To[int32](0)
	isSuspended := ptr.Deref(spec.Suspend, false)
	if ptr.Deref(spec.Parallelism, 1) == 0 && ptr.Equal(spec.Completions, none) && !isSuspended {
		return false
	}
	spec.Parallelism, spec.Completions, spec.Suspend = none, none, ptr.To(false)
	if spec.MaxFailedIndexes != nil {
		spec.MaxFailedIndexes = none // the API server requires at most completions
	}
	return true
}

// failJob sets activeDeadlineSeconds of a Job to 0, which fails the Job with the reason
// DeadlineExceeded. This is the only way that needs neither a failed pod nor a second write. The
// condition GangFailed contains the real reason.
func failJob(w gang.Workload) bool {
	spec := &w.Job.Spec
	if ptr.Deref(spec.ActiveDeadlineSeconds, 1) == 0 && !ptr.Deref(spec.Suspend, false) {
		return false
	}
	spec.ActiveDeadlineSeconds, spec.Suspend = ptr.To[int64](0), ptr.To(false)
	return true
}

// cleanUpRetryInterval is the interval at which the deletion of pods is repeated after the API server
// rejected it. The manager usually has no permission to delete pods, and nothing waits for the deletion.
const cleanUpRetryInterval = 10 * time.Minute

// cleanUpPodsOrReport deletes the pods of a finished gang, and reports a rejection of the request once.
func (r *Reconciler) cleanUpPodsOrReport(ctx context.Context, g *observedGang, s lifecycle.State) {
	err := r.cleanUpPods(ctx, g, s)
	if !isRejected(err) {
		g.pass.handleError(err)
		return
	}
	g.pass.requeueAfter(cleanUpRetryInterval)
	r.recordRejection(g, err, cleanUpRetryInterval)
}

// cleanUpPods deletes all pods of a finished gang, including those that have exited, if its
// clean-pod-policy is all. It makes one request per member. Pods that were running are already
// terminated, or are terminating; see [desiredAction].
func (r *Reconciler) cleanUpPods(ctx context.Context, g *observedGang, s lifecycle.State) error {
	if !s.Phase.Terminal() || g.gangPolicies().CleanPodPolicy != gang.CleanPodPolicyAll {
		return nil
	}
	if g.lastState().Phase != s.Phase {
		return nil // the result, which is read from the pods, must be written before they are deleted
	}
	for _, m := range g.Members {
		if m.Job == nil || m.Result == nil || m.observed.NonTerminatingPods == 0 {
			continue // the pods of a StatefulSet are deleted when it is scaled to 0
		}
		if terminatesOwnPods(m.Job) {
			continue // the Job controller deletes them, and the event of the condition causes a pass
		}
		if isSpecChangeDue(g, m, s) {
			continue // a policy denies the end of the Job, which would replace its pods
		}
		err := r.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(m.Meta().Namespace),
			client.MatchingLabelsSelector{Selector: jobPodSelector(m)})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the pods of %s: %w", m.Meta().Name, err)
		}
		log.FromContext(ctx).Info("Deleted the pods of a finished gang",
			"member", m.Meta().Name, "pods", m.observed.NonTerminatingPods)
	}
	return nil
}

// isSpecChangeDue reports whether the spec of a member is not that of a state, because its change was rejected.
func isSpecChangeDue(g *observedGang, m member, s lifecycle.State) bool {
	status := lifecycle.Status{State: s}
	return mutateWorkload(m.DeepCopy(), desiredAction(g, m, s), &status, m.lastStatus())
}

// terminatesOwnPods reports whether a Job has a result and waits for its pods to terminate.
func terminatesOwnPods(job *batchv1.Job) bool {
	hasCondition := func(types ...batchv1.JobConditionType) bool {
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Status == corev1.ConditionTrue && slices.Contains(types, c.Type)
		})
	}
	return hasCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget) &&
		!hasCondition(batchv1.JobComplete, batchv1.JobFailed)
}

// jobPodSelector returns a selector of the pods of one Job. Jobs of other gangs can have the same gang
// name. A UID that is not a valid label value selects nothing.
func jobPodSelector(m member) labels.Selector {
	selector := labels.Set{gang.LabelGang: m.Result.Gang.Name, gang.LabelRole: m.Result.Gang.Role}.AsSelector()
	ownedByJob, err := labels.NewRequirement(batchv1.ControllerUidLabel, selection.Equals, []string{string(m.Job.UID)})
	if err != nil {
		return labels.Nothing()
	}
	return selector.Add(*ownedByJob)
}
