package simulation

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// countPods counts terminated pods in the status (trackJobStatusAndRemoveFinalizers).
func (s *jobSync) countPods() {
	status := &s.job.Status
	if status.UncountedTerminatedPods == nil {
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.forgetCountedPods()
	completed := s.succeeded.Clone() // also of pods whose finalizer is removed already, if the cache is late
	kept := s.podsToKeep()
	for _, pod := range s.pods {
		if !isTracked(pod) || s.worker.removals.Has(pod.UID) || !s.canCount(pod, kept) {
			continue
		}
		s.counted = append(s.counted, pod)
		s.countPod(pod, completed)
	}
	for index := range completed {
		if index >= s.completions() {
			completed.Delete(index)
		}
	}
	if text := formatIndexes(completed); text != status.CompletedIndexes {
		status.CompletedIndexes, s.needsFlush = text, true
	}
	status.Succeeded = int32(completed.Len())
}

// countPod counts a pod as completed or failed.
func (s *jobSync) countPod(pod *corev1.Pod, completed sets.Set[int32]) {
	index := gang.PodIndex(pod)
	isFailedByEnd := s.finished != nil &&
		s.finished.Type != batchv1.JobComplete && s.finished.Type != batchv1.JobSuccessCriteriaMet
	switch {
	case s.uncounted.Has(pod.UID) || index >= s.completions():
	case pod.Status.Phase == corev1.PodSucceeded:
		completed.Insert(index)
	case s.isPodFailed(pod) || isFailedByEnd:
		uncounted := s.job.Status.UncountedTerminatedPods
		uncounted.Failed = append(uncounted.Failed, pod.UID)
		s.uncounted.Insert(pod.UID)
		s.needsFlush = true
	}
}

// canCount reports whether the finalizer of a pod can be removed (canRemoveFinalizer).
func (s *jobSync) canCount(pod *corev1.Pod, kept sets.Set[types.UID]) bool {
	switch {
	case s.job.DeletionTimestamp != nil || s.finished != nil || pod.Status.Phase == corev1.PodSucceeded:
		return true
	case !s.isPodFailed(pod):
		return false
	}
	return !kept.Has(pod.UID)
}

// podsToKeep returns the failed pods that keep the number of failures of their index until they are replaced
// (getPodsWithDelayedDeletionPerIndex).
func (s *jobSync) podsToKeep() sets.Set[types.UID] {
	out := sets.Set[types.UID]{}
	if s.job.Spec.BackoffLimitPerIndex == nil {
		return out
	}
	last := map[int32]*corev1.Pod{}
	for _, pod := range s.pods {
		index := gang.PodIndex(pod)
		if !isTracked(pod) || !s.isPodFailed(pod) || s.succeeded.Has(index) {
			continue
		}
		if last[index] == nil || last[index].CreationTimestamp.Before(&pod.CreationTimestamp) {
			last[index] = pod
		}
	}
	for _, pod := range s.active {
		delete(last, gang.PodIndex(pod))
	}
	for _, pod := range last {
		out.Insert(pod.UID)
	}
	return out
}

// forgetCountedPods adds uncounted pods without a finalizer to the counters.
func (s *jobSync) forgetCountedPods() {
	tracked := sets.Set[types.UID]{}
	for _, pod := range s.pods {
		if isTracked(pod) && !s.worker.removals.Has(pod.UID) {
			tracked.Insert(pod.UID)
		}
	}
	uncounted := s.job.Status.UncountedTerminatedPods
	before := len(uncounted.Failed)
	uncounted.Failed = slices.DeleteFunc(uncounted.Failed, func(uid types.UID) bool { return !tracked.Has(uid) })
	if n := before - len(uncounted.Failed); n > 0 {
		s.job.Status.Failed += int32(n)
		s.needsFlush = true
	}
}

// countLivePods sets the numbers of active, ready and terminating pods.
func (s *jobSync) countLivePods() {
	var active, ready, terminating int32
	for _, pod := range s.pods {
		switch {
		case isTerminal(pod):
		case pod.DeletionTimestamp != nil || s.worker.deletions.Has(pod.UID):
			terminating++
		default:
			active++
			if isReady(pod) {
				ready++
			}
		}
	}
	status := &s.job.Status
	before := status.DeepCopy()
	status.Active, status.Ready, status.Terminating = active, ptr.To(ready), ptr.To(terminating)
	if !equality.Semantic.DeepEqual(before, status) {
		s.needsFlush = true
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// addSteps adds the write of the status, the removal of finalizers, and the write of the counters.
func (s *jobSync) addSteps() {
	s.countLivePods()
	isInterim := s.finished != nil &&
		(s.finished.Type == batchv1.JobFailureTarget || s.finished.Type == batchv1.JobSuccessCriteriaMet)
	if isInterim {
		if !hasJobCondition(s.job, s.finished.Type) {
			s.job.Status.Conditions = append(s.job.Status.Conditions, s.newCondition(*s.finished))
			s.needsFlush = true
		}
	}
	if s.needsFlush && len(s.counted) > 0 {
		s.steps = append(s.steps, s.writeStatus)
		s.needsFlush = false
	}
	for _, pod := range s.counted {
		s.steps = append(s.steps, func() error {
			s.worker.removals.Insert(pod.UID)
			err := s.c.removeFinalizer(pod)
			if err != nil {
				s.worker.removals.Delete(pod.UID)
			}
			return client.IgnoreNotFound(err)
		})
	}
	s.steps = append(s.steps, func() error {
		s.forgetCountedPods()
		s.finish()
		if s.needsFlush {
			return s.writeStatus()
		}
		return nil
	})
}

// finish adds the final condition after all pods have terminated and are counted (enactJobFinished).
func (s *jobSync) finish() {
	status := &s.job.Status
	if s.finished == nil || len(status.UncountedTerminatedPods.Failed) > 0 || ptr.Deref(status.Terminating, 0) > 0 ||
		status.Active > 0 {
		return
	}
	final := *s.finished
	switch final.Type {
	case batchv1.JobSuccessCriteriaMet:
		final.Type = batchv1.JobComplete
	case batchv1.JobFailureTarget:
		final.Type = batchv1.JobFailed
	}
	if final.Type == batchv1.JobComplete {
		now := s.newCondition(final).LastTransitionTime
		status.CompletionTime = &now
	}
	status.Conditions = append(status.Conditions, s.newCondition(final))
	s.needsFlush = true
}

// writeStatus writes the status over the version that the sync read or wrote last.
func (s *jobSync) writeStatus() error {
	updated, err := s.c.api.update(s.job, "status")
	if apierrors.IsNotFound(err) {
		return errSyncEnded
	}
	if err != nil {
		return err
	}
	s.job.ResourceVersion, s.worker.jobVersion = updated.GetResourceVersion(), s.c.api.version
	s.needsFlush = false
	return nil
}
