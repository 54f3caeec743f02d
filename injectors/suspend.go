package injectors

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/lifecycle"
)

var (
	replicasPath = field.NewPath("spec", "replicas")
	suspendPath  = field.NewPath("spec", "suspend")
)

// preserveZeroReplicas keeps a StatefulSet at 0 replicas that Rollcall scaled to 0, if an update
// applies the original manifest again. Otherwise a GitOps tool would start a finished gang on every
// sync. An update to any other number of replicas is a request to scale, and stays. The result is the
// warnings for the user, nil if the update stays as it is.
func preserveZeroReplicas(old, updated *appsv1.StatefulSet) gang.Warnings {
	w := gang.Workload{StatefulSet: old}
	status, requested := lifecycle.ReadStatus(w), ptr.Deref(updated.Spec.Replicas, 1)
	scaledDownByRollcall := status.SuspendedByRollcall && w.Ranks() == 0
	originalSize := requested > 0 && requested == injection.RecordedSize(w)
	if !scaledDownByRollcall || !originalSize || isResumedByRollcall(updated) {
		return nil
	}
	updated.Spec.Replicas = ptr.To[int32](0)
	message := fmt.Sprintf("kept at 0 while the gang is %s", status.Phase)
	if status.Phase.Terminal() {
		message = fmt.Sprintf("kept at 0 because the gang is %s; to run it again, "+
			"recreate the StatefulSet or run kubectl scale statefulset/%s --replicas=%d", status.Phase, old.Name, requested)
	}
	return gang.Warnings{gang.NewWarning(replicasPath, message)}
}

// isResumedByRollcall reports whether an update of a suspended StatefulSet comes from Rollcall. The
// reconciler writes the replicas and a status that does not claim the suspension in one request.
func isResumedByRollcall(updated *appsv1.StatefulSet) bool {
	_, hasStatus := updated.Annotations[gang.AnnotationStatus]
	return hasStatus && !lifecycle.ReadStatus(gang.Workload{StatefulSet: updated}).SuspendedByRollcall
}

// PreserveSuspend decides who controls the suspension of a Job after an update. It changes updated in
// three cases. Every other update stays as it is.
//
//   - A user confirms the suspension of a restarting Job. The Job is suspended already, so an update
//     that changes nothing is the only signal. The user controls the suspension from then on.
//   - Somebody else resumes a Job that Rollcall suspends: Kueue, or a GitOps tool that applies a
//     manifest with suspend: false again. The Job stays suspended until Rollcall has finished the
//     restart, or because the gang has finished.
//   - A queue or a user resumes a Job that Rollcall does not suspend. The pod template gets the number
//     of the attempt.
func (e *Engine) PreserveSuspend(old, updated *batchv1.Job) Result {
	if r, skip := e.skipUnmanaged(gang.Workload{Job: updated}); skip {
		return r // the update ends the management, and can resume the Job (rollcall detach)
	}
	status := lifecycle.ReadStatus(gang.Workload{Job: updated})
	resumed := ptr.Deref(old.Spec.Suspend, false) && !ptr.Deref(updated.Spec.Suspend, false)
	isQueued := (gang.Workload{Job: updated}).QueueName() != ""
	switch {
	case resumed && status.SuspendedByRollcall: // the reconciler changes both in one request
		return keepSuspended(updated, status.Phase, isQueued)
	case resumed && isQueued && !status.Phase.Terminal(), resumed && status.Phase == lifecycle.Suspended:
		return setAttemptOnResume(old, updated, status.Attempt)
	case isQueued:
		return Result{Reason: gang.ReasonImmutableTemplate}
	}
	return confirmSuspend(old, updated)
}

// confirmSuspend makes a user control the suspension of a Job that Rollcall suspended, if the update
// changes nothing.
func confirmSuspend(old, updated *batchv1.Job) Result {
	status := lifecycle.ReadStatus(gang.Workload{Job: old})
	suspendedForRestart := status.Phase == lifecycle.Restarting && status.SuspendedByRollcall &&
		ptr.Deref(old.Spec.Suspend, false)
	if !suspendedForRestart || !isUnchanged(old, updated) {
		return Result{Reason: gang.ReasonImmutableTemplate}
	}
	updated.Annotations[gang.AnnotationSuspendedBy] = gang.SuspendedByUser
	return Result{Reason: gang.ReasonKeptSuspended, Warnings: gang.Warnings{gang.NewWarning(suspendPath,
		"the gang was restarting and is now suspended; set spec.suspend to false to resume it")}}
}

// keepSuspended reverts an update that resumes a Job, instead of denying it: Kueue would retry a denied
// update with increasing delays, and resume the Job too late. A GitOps tool would report a failed sync.
func keepSuspended(updated *batchv1.Job, phase lifecycle.Phase, isQueued bool) Result {
	updated.Spec.Suspend = ptr.To(true)
	message := "kept true until the pods of the failed attempt have terminated and the back-off has elapsed; "
	switch {
	case phase.Terminal():
		message = fmt.Sprintf("kept true because the gang is %s; to run it again, recreate the Job", phase)
	case isQueued:
		message += "the queue can then resume the Job"
	default:
		message += "Rollcall then resumes the Job"
	}
	return Result{Reason: gang.ReasonKeptSuspended, Warnings: gang.Warnings{gang.NewWarning(suspendPath, message)}}
}

// setAttemptOnResume writes the number of the attempt into the pod template of a Job that Kueue or a user
// resumes. An earlier write would not last, because Kueue restores the original template of an
// evicted Job in every pass. A user may resume a Job before Rollcall has written the number. The template
// is immutable once status.startTime is set.
func setAttemptOnResume(old, updated *batchv1.Job, attempt int32) Result {
	if old.Status.StartTime == nil && (gang.Workload{Job: updated}).SetAttempt(attempt) {
		return Result{Reason: gang.ReasonAttemptLabelSet}
	}
	return Result{Reason: gang.ReasonImmutableTemplate}
}

// isUnchanged reports whether an update changes nothing but the ownership of fields.
func isUnchanged(old, updated *batchv1.Job) bool {
	before, after := old.DeepCopy(), updated.DeepCopy()
	before.ManagedFields, after.ManagedFields = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}

// revertSpecChanges restores the spec of a workload whose manifest was copied from a live object.
// The copy contains the changes that Rollcall made to suspend or to finish the original gang.
func revertSpecChanges(w gang.Workload) {
	status := lifecycle.ReadStatus(w)
	if w.StatefulSet != nil {
		if size := injection.RecordedSize(w); status.SuspendedByRollcall && w.Ranks() == 0 && size > 0 {
			w.StatefulSet.Spec.Replicas = &size
		}
		return
	}
	spec := &w.Job.Spec
	// A queue must admit the new Job, and resumes it.
	if status.SuspendedByRollcall && ptr.Deref(spec.Suspend, false) && w.QueueName() == "" {
		spec.Suspend = ptr.To(false)
	}
	failedByRollcall := status.Phase == lifecycle.Failed && status.FirstFailure != nil &&
		spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds == 0
	if failedByRollcall {
		spec.ActiveDeadlineSeconds = nil
	}
	status.RemoveAvoidance(w)
}
