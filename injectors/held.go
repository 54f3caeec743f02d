package injectors

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// hold keeps a StatefulSet at no replicas that Rollcall scaled to 0, because its gang
// restarts or has ended, when somebody applies its manifest again: a tool that does so
// every few minutes would start an ended gang anew for ever. Whoever wants that scales
// it, which is another request. The warnings tell.
func hold(old, updated *appsv1.StatefulSet) []string {
	was := gang.StatusOf(gang.Workload{StatefulSet: old})
	_, said := updated.Annotations[gang.AnnotationStatus]
	wanted := ptr.Deref(updated.Spec.Replicas, 1)
	switch record, err := plan.ReadRecord(gang.Workload{StatefulSet: old}); {
	case err != nil || record == nil || !was.Stopped || ptr.Deref(old.Spec.Replicas, 1) != 0:
		return nil
	case wanted != record.Size, said && !gang.StatusOf(gang.Workload{StatefulSet: updated}).Stopped: // the latter is Rollcall itself
		return nil
	}
	updated.Spec.Replicas = ptr.To[int32](0)
	if !was.Phase.Terminal() {
		return []string{fmt.Sprintf("spec.replicas: stays 0 until the gang, which is %s, begins anew", was.Phase)}
	}
	return []string{fmt.Sprintf("spec.replicas: stays 0, since the gang is %s; to run it again, delete it and create it anew, or kubectl scale statefulset/%s --replicas=%d",
		was.Phase, old.Name, wanted)}
}

// Hold notes that the user of a Job wants it suspended which Rollcall has suspended for a
// restart. That changes nothing of the Job, so an update which changes nothing is taken for
// it: the Job counts as held back by its user from then on, and is let go by its user
// alone. One that waits in a queue is its queue's to hold back and to let go, and not
// before Rollcall holds it back no more: it stays suspended until then. Every other update
// stays as it is.
func (e *Engine) Hold(old, updated *batchv1.Job) Result {
	if (gang.Workload{Job: updated}).Queue() != "" {
		return holdQueued(old, updated)
	}
	was := gang.StatusOf(gang.Workload{Job: old})
	if was.Phase != gang.Restarting || !was.Stopped || !ptr.Deref(old.Spec.Suspend, false) || !unchanged(old, updated) {
		return Result{Reason: gang.ReasonTooLate}
	}
	was.Stopped = false
	text, err := was.Text()
	if err != nil {
		return Result{Reason: gang.ReasonInternal}
	}
	updated.Annotations[gang.AnnotationStatus] = text
	return Result{Reason: gang.ReasonHeld, Warnings: []string{
		"spec.suspend: the gang was stopped for a restart; it is suspended now, and begins anew when you set this to false"}}
}

// holdQueued keeps a Job suspended that Rollcall has stopped, and that Kueue has admitted
// and therefore lets go as soon as it finds it suspended. The update is not refused: Kueue
// would try again, ever more rarely, and be late in the end.
//
// One that Rollcall does not hold gets the number of its attempt when it is let go. When
// Kueue takes a Job's room away, it restores the template with which the Job began, at each
// look, so the number would not stay if it were written before.
func holdQueued(old, updated *batchv1.Job) Result {
	now := gang.StatusOf(gang.Workload{Job: updated})
	switch {
	case !ptr.Deref(old.Spec.Suspend, false) || ptr.Deref(updated.Spec.Suspend, false) || now.Phase.Terminal():
		return Result{Reason: gang.ReasonTooLate}
	case !now.Stopped:
		if old.Status.StartTime == nil && (gang.Workload{Job: updated}).Number(now.Attempt) {
			return Result{Reason: gang.ReasonNumbered}
		}
		return Result{Reason: gang.ReasonTooLate}
	}
	updated.Spec.Suspend = ptr.To(true)
	return Result{Reason: gang.ReasonHeld, Warnings: []string{
		"spec.suspend: stays true until the pods of the attempt that fell are gone and the back-off is over; Rollcall hands the Job to its queue then"}}
}

// unchanged reports whether an update leaves a Job as it is, but for who wrote what.
func unchanged(old, updated *batchv1.Job) bool {
	o, u := old.DeepCopy(), updated.DeepCopy()
	o.ManagedFields, u.ManagedFields = nil, nil
	return equality.Semantic.DeepEqual(o, u)
}

// revive takes back what Rollcall did to the spec of the object that a manifest was
// copied from: the gang that is being created has not ended.
func revive(w gang.Workload) {
	s := gang.StatusOf(w)
	if set := w.StatefulSet; set != nil {
		if r, err := plan.ReadRecord(w); err == nil && r != nil && s.Stopped && r.Size > 0 && w.Ranks() == 0 {
			set.Spec.Replicas = ptr.To(r.Size)
		}
		return
	}
	spec := &w.Job.Spec
	if s.Stopped && ptr.Deref(spec.Suspend, false) {
		spec.Suspend = ptr.To(false)
	}
	if s.Phase == gang.Failed && s.Cause != nil && spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds == 0 {
		spec.ActiveDeadlineSeconds = nil
	}
}
