package detach

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// limit gives a workload the limits that the API permits, and describes what remains without a limit.
// Jobs of this build have limits since their admission. Older builds removed them, and of the limits on
// failed pods, only backoffLimit can be changed later.
func (d Detacher) limit(w gang.Workload) []string {
	if w.StatefulSet != nil {
		return []string{"a StatefulSet restarts its pods without a limit"}
	}
	var notes []string
	spec := &w.Job.Spec
	isUnlimited := ptr.Deref(spec.BackoffLimit, 0) == gang.UnlimitedBackoffLimit &&
		ptr.Deref(spec.BackoffLimitPerIndex, gang.UnlimitedBackoffLimit) == gang.UnlimitedBackoffLimit
	if isUnlimited {
		limit := int64(w.Job.Status.Failed) + int64(d.policies(w).JobFailureLimit())*int64(max(w.Ranks(), 1))
		spec.BackoffLimit = ptr.To(int32(min(limit, math.MaxInt32-1)))
		notes = append(notes, fmt.Sprintf("set spec.backoffLimit to %d", *spec.BackoffLimit))
	}
	if spec.ActiveDeadlineSeconds == nil && restartsInPlace(&spec.Template.Spec) {
		notes = append(notes, "failed containers restart in their pods without a limit; "+
			"to limit the time, set spec.activeDeadlineSeconds")
	}
	return notes
}

// policies returns the policies of a workload's gang, or the default policies if it cannot be parsed.
func (d Detacher) policies(w gang.Workload) gang.RestartRules {
	if result, err := d.Engine.Describe(w); err == nil {
		return result.Gang.RestartRules
	}
	return gang.RestartRules{MaxRestarts: gang.DefaultMaxRestarts, MaxDisruptions: gang.UnlimitedDisruptions}
}

// restartsInPlace reports whether the kubelet restarts a failed container of a pod that never restarts.
func restartsInPlace(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestart
		})
	})
}
