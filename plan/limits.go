package plan

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Paths below spec of a Job's limits.
const (
	fieldBackoff         = "backoffLimit"
	fieldBackoffPerIndex = "backoffLimitPerIndex"
)

// limits lifts a Job's limits on failed pods (docs/adr/0015). Restart rules keep pods
// from failing, but not from being deleted or evicted: the Job counts those, ends after
// backoffLimit of them, and waits the longer for the next pods the more it counted. With
// backoffLimitPerIndex each rank's wait depends on that rank's own pods. It needs pods
// whose restartPolicy is Never.
//
// What an earlier admission lifted is taken back when the plan wants it no more, as in a
// manifest that was saved and given another restart-policy: it would retry for ever.
func (a *applier) limits(job *batchv1.Job, fields map[string]string) {
	lifted := strconv.Itoa(int(gang.NoLimit))
	lift := func(name string, want bool, at **int32) {
		was := fields[name] == lifted && ptr.Deref(*at, 0) == gang.NoLimit
		delete(fields, name)
		switch {
		case want:
			*at, fields[name] = ptr.To(gang.NoLimit), lifted
		case was:
			*at = nil
		}
	}
	spec := &job.Spec
	perIndex := fields[fieldBackoffPerIndex] == lifted && ptr.Deref(spec.BackoffLimitPerIndex, 0) == gang.NoLimit
	own := spec.BackoffLimitPerIndex != nil && !perIndex
	never := spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever
	// Beside a backoffLimitPerIndex of the user's, 6 is no default.
	lift(fieldBackoff, a.plan.LiftLimits && !own && gang.DefaultedBackoff(spec.BackoffLimit), &spec.BackoffLimit)
	lift(fieldBackoffPerIndex, a.plan.LiftLimits && !own && never, &spec.BackoffLimitPerIndex)
}
