package failure

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// IsFromEarlierAttempt reports whether a pod belongs to an earlier attempt.
//
// A running pod that is not being deleted always belongs to the current attempt: Rollcall starts an
// attempt only after all pods of the previous attempt have terminated. If another controller
// resumed the Job early, the label of its pods has the number of the previous attempt, and Rollcall
// did not start a new attempt. The creation time alone does not identify the attempt of a running
// pod. A StatefulSet may create its pods within the second of the restart, or by a clock that is
// behind.
func (c Context) IsFromEarlierAttempt(pod *corev1.Pod) bool {
	attempt, hasAttempt := gang.PodAttempt(pod)
	isDeleting := pod.DeletionTimestamp != nil
	// The deletion timestamp may have moved to the present (see IsDeletionConfirmed), so the creation decides first. It
	// comes before the number of the attempt: a user who starts one of several Jobs again starts a new run of the gang,
	// whose attempts have the numbers of those of the run before.
	isEnding := allContainersTerminated(pod) || hasAttempt && isDeleting
	if isEnding && pod.CreationTimestamp.Time.Before(c.LastRestartTime.Add(-restartTimeTolerance)) {
		return true
	}
	if hasAttempt && attempt >= c.Attempt {
		return false
	}
	if isDeleting && !DeletionRequestTime(pod).After(c.AttemptStartTime) {
		return true
	}
	// While the gang restarts, the time of the restart before is not known, and the clock of a node may be ahead of
	// the times below. The number in the template changes before the Job is resumed, unless the webhook is unavailable.
	if hasAttempt && isEnding && (attempt < c.TemplateAttempt || c.precedesJobStart(pod)) {
		return true
	}
	if !hasAttempt {
		return c.hasEndedBeforeResumption(pod)
	}
	// A suspension deletes active pods only, and a user can resume a Job before its label is changed.
	return hasExitedBy(pod, c.AttemptStartTime)
}

// restartTimeTolerance is how long before a restart, or before all members were resumed at once, a pod must have been
// created to belong to an earlier attempt. A StatefulSet whose containers have all exited can create its next pods
// within the second of the restart, and the clock of the manager may be two seconds ahead.
const restartTimeTolerance = 3 * time.Second

// precedesJobStart reports whether a pod was created before its Job was resumed for the current attempt. The
// two times are from the clocks of the API server and of the Job controller, and have the precision of a second. The
// Job controller can write its time seconds after it created the pods. Pods from before were deleted, or had ended.
func (c Context) precedesJobStart(pod *corev1.Pod) bool {
	isEnded := pod.DeletionTimestamp != nil || hasExitedBy(pod, c.JobStartTime.Add(restartTimeTolerance))
	return isEnded && pod.CreationTimestamp.Time.Before(c.JobStartTime.Add(-clockTolerance))
}

// hasEndedBeforeResumption reports whether a pod without a label of its attempt ended before all members were resumed
// for an attempt after the first. The pods of StatefulSets and of gangs that never restart have no label. A failure
// ends such a gang, unless another member is suspended.
func (c Context) hasEndedBeforeResumption(pod *corev1.Pod) bool {
	return c.Attempt > 0 && allContainersTerminated(pod) && c.precedesResumption(pod, lastExitTime(pod))
}

// precedesResumption reports whether a pod was created, and exited at a time, before all members were resumed for the
// attempt. The times have the precision of a second. If a pod exits in the second in which the last member is resumed,
// its creation decides.
func (c Context) precedesResumption(pod *corev1.Pod, exitTime time.Time) bool {
	tolerance := restartTimeTolerance
	if c.ResumedApart {
		tolerance = clockTolerance
		if exitTime.Before(c.ResumeTime) {
			tolerance = 0
		}
	}
	return !exitTime.After(c.ResumeTime) && pod.CreationTimestamp.Time.Before(c.ResumeTime.Add(-tolerance))
}

// hasExitedBy reports whether all containers of a pod exited by a time.
func hasExitedBy(pod *corev1.Pod, t time.Time) bool {
	return allContainersTerminated(pod) && !lastExitTime(pod).After(t)
}

// lastExitTime returns when the last container of a pod exited. If no container has, it returns when a
// condition of the pod changed last.
func lastExitTime(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	if last.IsZero() {
		return lastConditionTransitionTime(pod)
	}
	return last
}

// allContainersTerminated reports whether no container of a pod is running or waiting. A pod without
// container statuses has not started.
func allContainersTerminated(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	statuses := pod.Status.ContainerStatuses
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil
	})
}
