package simulation

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// jobBackoff is the number of failures of a Job after the last success. Jobs with backoffLimitPerIndex ignore it.
type jobBackoff struct {
	failures int32
	lastTime time.Time
}

// newBackoff returns the back-off with new pods (newBackoffRecord).
func (s *jobSync) newBackoff() jobBackoff {
	out := s.worker.backoff
	var lastSuccess time.Time
	for _, pod := range s.validPods(nil, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }) {
		out = jobBackoff{}
		if t := finishTimeOf(pod); t.After(lastSuccess) {
			lastSuccess = t
		}
	}
	for _, pod := range s.newFailed {
		if t := finishTimeOf(pod); t.After(lastSuccess) {
			out.failures++
			if t.After(out.lastTime) {
				out.lastTime = t
			}
		}
	}
	return out
}

// withoutBackoff returns the indexes whose pods can be created now. Without any, it schedules the next sync.
func (s *jobSync) withoutBackoff(indexes []int32) []int32 {
	var out []int32
	shortest := time.Duration(0)
	for _, index := range indexes {
		backoff := s.backoff
		if s.hasLimitPerIndex() {
			backoff = jobBackoff{}
			if last := s.kept[index]; last != nil {
				backoff = jobBackoff{failures: failureCount(last) + 1, lastTime: finishTimeOf(last)}
			}
		}
		if remaining := backoff.remaining(s.c.w.now); remaining == 0 {
			out = append(out, index)
		} else if shortest == 0 || remaining < shortest {
			shortest = remaining
		}
	}
	if len(out) == 0 && shortest > 0 && (s.nextSync == 0 || shortest < s.nextSync) {
		s.nextSync = max(shortest, podBatchPeriod)
	}
	return out
}

// remaining returns the delay before the next pod (getRemainingTimeForFailuresCount).
func (b jobBackoff) remaining(now time.Time) time.Duration {
	if b.failures == 0 {
		return 0
	}
	delay := min(10*time.Second<<min(b.failures-1, 8), 10*time.Minute)
	return max(0, delay-now.Sub(b.lastTime))
}

// failureCount returns how often the pods of the index failed before this pod.
func failureCount(pod *corev1.Pod) int32 {
	n, err := strconv.Atoi(pod.Annotations[batchv1.JobIndexFailureCountAnnotation])
	if err != nil {
		return 0
	}
	return int32(n)
}

// finishTimeOf returns when a pod finished (getFinishedTime).
func finishTimeOf(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated == nil {
			last = time.Time{}
			break
		}
		if t := c.State.Terminated.FinishedAt.Time; t.After(last) {
			last = t
		}
	}
	if !last.IsZero() {
		return last
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	return pod.CreationTimestamp.Time
}

// podsToKeep returns the failed pods that keep the number of failures of their index until they are replaced
// (getPodsWithDelayedDeletionPerIndex).
func (s *jobSync) podsToKeep() map[int32]*corev1.Pod {
	out := map[int32]*corev1.Pod{}
	if !s.hasLimitPerIndex() {
		return out
	}
	for _, pod := range s.validPods(nil, s.isPodFailed) {
		index := gang.PodIndex(pod)
		isActive := slices.ContainsFunc(s.activePods, func(p *corev1.Pod) bool { return gang.PodIndex(p) == index })
		if s.succeeded.Has(index) || s.failed.Has(index) || isActive {
			continue
		}
		last := out[index]
		if last == nil || failureCount(last) <= failureCount(pod) && !finishTimeOf(pod).Before(finishTimeOf(last)) {
			out[index] = pod
		}
	}
	return out
}
