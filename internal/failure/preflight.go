package failure

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// IsFailedPreflight reports whether a preflight check caused a failure, which may be nil.
func (f *Failure) IsFailedPreflight() bool {
	return f != nil && f.Reason == ReasonPreflightFailed
}

// IsRefusal reports whether a node refused a rank: by a preflight check, or by a kubelet that rejected the pod because
// something of the node is missing. The failure may be nil.
func (f *Failure) IsRefusal() bool {
	return f.IsFailedPreflight() || f != nil && f.Container == "" &&
		(slices.Contains(rejectionReasons, f.Reason) || strings.HasPrefix(f.Reason, rejectedForResource))
}

// rejectionReasons are reasons of a kubelet that rejects a pod for which a device or a label of its node is missing.
var rejectionReasons = []string{
	"UnexpectedAdmissionError", "NodeAffinity",
}

// rejectedForResource starts the reason of a kubelet that rejects a pod for which another resource of its node is
// missing, such as OutOfcpu (kubernetes pkg/kubelet/lifecycle, predicate.go).
const rejectedForResource = "OutOf"

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
