package lifecycle

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// isIgnored reports whether a Job does not count a failed pod, because the first rule of its podFailurePolicy that
// matches the pod has the action Ignore (kubernetes pkg/controller/job, matchPodFailurePolicy).
func isIgnored(job *batchv1.Job, pod *corev1.Pod) bool {
	if job.Spec.PodFailurePolicy == nil {
		return false
	}
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		hasExited := rule.OnExitCodes != nil && hasExitCode(pod, *rule.OnExitCodes)
		if hasExited || hasAnyCondition(pod, rule.OnPodConditions) {
			return rule.Action == batchv1.PodFailurePolicyActionIgnore
		}
	}
	return false
}

// hasExitCode reports whether the exit code of a container, other than 0, meets a requirement.
func hasExitCode(pod *corev1.Pod, r batchv1.PodFailurePolicyOnExitCodesRequirement) bool {
	statuses := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	return slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool {
		exited := c.State.Terminated
		isNamed := r.ContainerName == nil || *r.ContainerName == c.Name
		return isNamed && exited != nil && exited.ExitCode != 0 &&
			slices.Contains(r.Values, exited.ExitCode) == (r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
	})
}

// hasAnyCondition reports whether a pod has one of the conditions.
func hasAnyCondition(pod *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return slices.Contains(patterns, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: c.Type, Status: c.Status})
	})
}
