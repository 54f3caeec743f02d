package failure

import (
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// IsFailedPreflight reports whether a preflight check caused a failure, which may be nil.
func (f *Failure) IsFailedPreflight() bool {
	return f != nil && f.Reason == ReasonPreflightFailed
}

// preflightFailures returns the failures of the preflight check, as containerFailures does. The check of a pod that is
// terminated may exit with any code, but programs do not choose these codes for that.
func (c Context) preflightFailures(pod *corev1.Pod) (previous, current *Failure) {
	if c.Preflight == "" {
		return nil, nil
	}
	markFailed := func(f *Failure) *Failure {
		if f == nil || f.ExitCode != gang.PreflightNodeFailed && f.ExitCode != gang.PreflightFatal {
			return nil
		}
		f.Reason, f.Auxiliary, f.LostPeer = ReasonPreflightFailed, true, false
		return f
	}
	previous, current = containerFailures(pod, pod.Status.InitContainerStatuses, []string{c.Preflight})
	return markFailed(previous), markFailed(current)
}
