package failure

import (
	"slices"
	"strings"
)

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
