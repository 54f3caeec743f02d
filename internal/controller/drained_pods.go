package controller

import (
	"context"
	"fmt"
	"slices"

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
// while the gang restarts matter only for rules of a successPolicy. A patch that failed or was rejected is
// repeated in the next pass of the same manager: a pod on a lost node exits when the node returns.
//
// While a user suspends one of several members, the others run on, and the disruption of a pod is not a failure. Such
// pods are untracked when they are observed, and their Job replaces them.
func (r *Reconciler) untrackDeletedPods(ctx context.Context, s *session, m member, next lifecycle.Phase) error {
	uid := m.Meta().UID
	var names []string
	switch {
	case next == lifecycle.Restarting || next == lifecycle.Failed:
		names = append(s.podsToUntrack[uid], namesOf(m.observed.PodsToUntrack)...)
		slices.Sort(names)
		names = slices.Compact(names) // a pod whose patch failed is observed again
	case next == lifecycle.Suspended && m.restartsCompleted():
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

// namesOf returns the names of pods.
func namesOf(pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}
