package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// removeTrackingFinalizer is a patch that keeps the other finalizers of a pod.
var removeTrackingFinalizer = client.RawPatch(types.StrategicMergePatchType,
	[]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+batchv1.JobTrackingFinalizer+`"]}}`))

// untrackDeletedPod keeps the Job of a member from completing by pods that somebody else deleted.
//
// A program that saves a checkpoint on SIGTERM and exits with code 0 succeeds as far as the Job
// controller can see. If all ranks of a Job are drained, the Job completes and cannot run again. A pod
// without the finalizer batch.kubernetes.io/job-tracking is not counted, so one untracked pod keeps
// its Job incomplete, and the restart resets the other completed indexes (see resetJobStatus). The Job
// controller removes the finalizer in the same way from the pods that it deletes when a Job is
// suspended (kubernetes pkg/controller/job, deleteJobPods).
//
// A pod is untracked once, after the phase Restarting or Failed was written to the primary member. An untracked pod
// may disappear at once, and its failure would be forgotten if the write were rejected. In the phase
// Failed, the Job must fail (see failJob). If it completed first, it would report a success that never
// happened. A patch that failed or was rejected is repeated in the next pass of the same manager: a pod on a lost
// node exits when the node returns.
//
// While a user suspends one of several members, the others run on, and the disruption of a pod is not a failure. Such
// a pod is untracked when it is observed, and its Job replaces it.
func (r *Reconciler) untrackDeletedPod(ctx context.Context, s *session, m member, last, next lifecycle.Phase) error {
	isFailing := next == lifecycle.Restarting || next == lifecycle.Failed
	uid, pod, deleted := m.Meta().UID, "", m.observed.FirstDeletedPod
	isDrained := deleted != nil && failure.IsDisrupted(deleted)
	switch {
	case isFailing && last == next:
		pod = s.podsToUntrack[uid]
	case isFailing && deleted != nil, next == lifecycle.Suspended && isDrained && m.restartsCompleted():
		pod = deleted.Name
	}
	delete(s.podsToUntrack, uid)
	if pod == "" {
		return nil
	}
	target := &corev1.Pod{}
	target.Namespace, target.Name = m.Meta().Namespace, pod
	err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, target, removeTrackingFinalizer, FieldOwner))
	if err != nil {
		put(&s.podsToUntrack, uid, pod)
		return fmt.Errorf("untracking the pod %s: %w", pod, err)
	}
	log.FromContext(ctx).Info("Removed the tracking finalizer of a deleted pod", "pod", pod)
	return nil
}
