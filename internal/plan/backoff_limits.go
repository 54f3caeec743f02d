package plan

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// applyBackoffLimits removes the limits of a Job on failed pods (docs/adr/0015). Restart rules prevent
// failed pods, but not deleted or evicted pods. A Job counts those as well: it fails after
// backoffLimit pods, and the delay before replacement pods grows with the count. With
// backoffLimitPerIndex the delay of a rank depends only on its own pods. The field requires
// restartPolicy Never.
//
// Limits that an earlier admission removed are restored if the plan does not remove them. For
// example, a saved manifest can have a new restart-policy. Otherwise the Job would retry
// indefinitely.
func (a *applier) applyBackoffLimits(job *batchv1.Job, fields map[string]string) {
	spec := &job.Spec
	userPerIndex := spec.BackoffLimitPerIndex != nil &&
		!isUnlimited(fields, fieldBackoffLimitPerIndex, spec.BackoffLimitPerIndex)
	// The default of backoffLimit is not 6 in a Job with backoffLimitPerIndex, so 6 is from the user.
	unlimited := a.plan.UnlimitedBackoff && !userPerIndex
	podsNeverRestart := spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever

	spec.BackoffLimit = updateLimit(fields, fieldBackoffLimit, spec.BackoffLimit,
		unlimited && gang.IsDefaultBackoffLimit(spec.BackoffLimit))
	spec.BackoffLimitPerIndex = updateLimit(fields, fieldBackoffLimitPerIndex, spec.BackoffLimitPerIndex,
		unlimited && podsNeverRestart)
}

// updateLimit returns the new value of a limit and records it in fields.
func updateLimit(fields map[string]string, name string, limit *int32, unlimited bool) *int32 {
	wasUnlimited := isUnlimited(fields, name, limit)
	delete(fields, name)
	switch {
	case unlimited:
		fields[name] = unlimitedText()
		return ptr.To(gang.UnlimitedBackoffLimit)
	case wasUnlimited:
		return nil
	}
	return limit
}

// isUnlimited reports whether an earlier admission removed the limit and nobody has edited it since.
func isUnlimited(fields map[string]string, name string, limit *int32) bool {
	return fields[name] == unlimitedText() && ptr.Deref(limit, 0) == gang.UnlimitedBackoffLimit
}

func unlimitedText() string { return strconv.Itoa(int(gang.UnlimitedBackoffLimit)) }
