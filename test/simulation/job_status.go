package simulation

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// track counts terminated pods in the status, and adds the write of the status, the removal of finalizers, and the
// write of the counters (trackJobStatusAndRemoveFinalizers).
func (s *jobSync) track() {
	status := &s.job.Status
	s.needsFlush = s.needsFlush || s.active != status.Active || !ptr.Equal(status.Ready, &s.ready) ||
		!ptr.Equal(status.Terminating, &s.terminating)
	status.Active, status.Ready, status.Terminating = s.active, ptr.To(s.ready), ptr.To(s.terminating)
	s.forgetCountedPods()
	s.countPods()
	s.setIndexes()
	s.addInterimCondition()
	if s.needsFlush {
		s.steps = append(s.steps, func() error {
			err := s.writeStatus()
			if err == nil {
				s.worker.backoff = s.backoff
			}
			return err
		})
	}
	for _, pod := range s.counted {
		s.steps = append(s.steps, func() error {
			s.worker.removals.Insert(pod.UID)
			err := client.IgnoreNotFound(s.c.removeFinalizer(pod)) // see Limits in doc.go
			if err != nil {
				s.worker.removals.Delete(pod.UID)
			}
			return err
		})
	}
	s.steps = append(s.steps, func() error {
		s.needsFlush = false
		s.forgetCountedPods(s.counted...)
		s.finish()
		if s.needsFlush {
			return s.writeStatus()
		}
		return nil
	})
}

// countPods selects the pods whose finalizers can be removed, and counts those that failed.
func (s *jobSync) countPods() {
	uncounted := s.job.Status.UncountedTerminatedPods
	isFailedByEnd := s.finished != nil && s.finished.Type != batchv1.JobSuccessCriteriaMet
	pods := slices.Clone(s.pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return int(gang.PodIndex(a) - gang.PodIndex(b)) })
	for _, pod := range pods {
		if !isTracked(pod) || s.worker.removals.Has(pod.UID) || !s.canCount(pod) {
			continue
		}
		s.counted = append(s.counted, pod)
		isSucceeded := pod.Status.Phase == corev1.PodSucceeded
		if !s.uncounted.Has(pod.UID) && gang.PodIndex(pod) < s.completions() && !isSucceeded &&
			(s.isPodFailed(pod) || isFailedByEnd) && !s.isIgnored(pod) {
			uncounted.Failed = append(uncounted.Failed, pod.UID)
			s.needsFlush = true
		}
	}
}

// canCount reports whether the finalizer of a pod can be removed (canRemoveFinalizer).
func (s *jobSync) canCount(pod *corev1.Pod) bool {
	if s.job.DeletionTimestamp != nil || s.finished != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	kept := s.kept[gang.PodIndex(pod)]
	return s.isPodFailed(pod) && (kept == nil || kept.UID != pod.UID)
}

// setIndexes sets the completed and the failed indexes, also of pods whose finalizer is removed already.
func (s *jobSync) setIndexes() {
	status := &s.job.Status
	if text := formatIndexes(s.succeeded); text != status.CompletedIndexes {
		status.CompletedIndexes, s.needsFlush = text, true
	}
	status.Succeeded = int32(s.succeeded.Len())
	if !s.hasLimitPerIndex() {
		return
	}
	if text := formatIndexes(s.failed); !ptr.Equal(&text, status.FailedIndexes) {
		status.FailedIndexes, s.needsFlush = &text, true
	}
}

// forgetCountedPods adds uncounted pods without a finalizer to the counters (cleanUncountedPodsWithoutFinalizers).
// The finalizers of the named pods are removed, although the cache still contains them.
func (s *jobSync) forgetCountedPods(removed ...*corev1.Pod) {
	tracked := sets.Set[types.UID]{}
	for _, pod := range s.pods {
		if isTracked(pod) && !s.worker.removals.Has(pod.UID) {
			tracked.Insert(pod.UID)
		}
	}
	for _, pod := range removed {
		tracked.Delete(pod.UID)
	}
	uncounted := s.job.Status.UncountedTerminatedPods
	before := len(uncounted.Failed)
	uncounted.Failed = slices.DeleteFunc(uncounted.Failed, func(uid types.UID) bool { return !tracked.Has(uid) })
	if n := before - len(uncounted.Failed); n > 0 {
		s.job.Status.Failed += int32(n)
		s.needsFlush = true
	}
}

// isIgnored reports whether the podFailurePolicy ignores a pod. The only rule of a scenario is for disruptions.
func (s *jobSync) isIgnored(pod *corev1.Pod) bool {
	return s.job.Spec.PodFailurePolicy != nil && failure.IsDisrupted(pod)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// addInterimCondition adds the condition that announces the result, and turns finished into the result.
func (s *jobSync) addInterimCondition() {
	final := map[batchv1.JobConditionType]batchv1.JobConditionType{
		batchv1.JobSuccessCriteriaMet: batchv1.JobComplete, batchv1.JobFailureTarget: batchv1.JobFailed,
	}
	if s.finished == nil || final[s.finished.Type] == "" {
		return
	}
	if !hasJobCondition(s.job, s.finished.Type) {
		s.job.Status.Conditions = append(s.job.Status.Conditions, s.newCondition(*s.finished))
		s.needsFlush = true
	}
	s.finished = &batchv1.JobCondition{
		Type: final[s.finished.Type], Reason: s.finished.Reason, Message: s.finished.Message,
	}
}

func (s *jobSync) newCondition(c batchv1.JobCondition) batchv1.JobCondition {
	c.Status, c.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(s.c.w.now.Truncate(time.Second))
	return c
}

// finish adds the final condition after all pods have terminated and are counted (enactJobFinished).
func (s *jobSync) finish() {
	status := &s.job.Status
	if s.finished == nil || len(status.UncountedTerminatedPods.Failed) > 0 || s.terminating > 0 {
		return
	}
	final := s.newCondition(*s.finished)
	if final.Type == batchv1.JobComplete {
		status.CompletionTime = &final.LastTransitionTime
	}
	status.Conditions = append(status.Conditions, final)
	s.needsFlush = true
}

// writeStatus writes the status over the version that the sync read or wrote last.
func (s *jobSync) writeStatus() error {
	if err := s.c.w.fault("job-controller"); err != nil {
		return err
	}
	s.job.Status.Active = s.active // some pods may not have been created
	updated, err := s.c.api.update(s.job, "status")
	if apierrors.IsNotFound(err) {
		return errSyncEnded
	}
	if err != nil {
		return err
	}
	s.job.ResourceVersion, s.worker.jobVersion = updated.GetResourceVersion(), s.c.api.versions[jobKind]
	return nil
}
