package injection

import (
	"math"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// applyBackoffLimits replaces the limits of a Job on failed pods (docs/adr/0006). The
// limits must not fail a gang that has restarts left, and must end a gang that fails while no manager
// runs.
//
// A Job also counts deleted and evicted pods: it fails after backoffLimit pods, and the delay before
// replacement pods grows with the count. With backoffLimitPerIndex, delay and limit of a rank depend only
// on its own pods. The first rank that reaches its limit fails the Job, because its peers cannot continue.
//
// backoffLimitPerIndex requires restartPolicy Never. Otherwise backoffLimit contains the sum for all
// ranks. It limits failed pods, and restarts of the containers in running pods.
//
// The first rank that reaches a backoffLimitPerIndex of the user fails the Job, too.
//
// Limits of an earlier admission are removed if the plan has none. For example, a saved manifest can
// have a new restart-policy.
func (a *applier) applyBackoffLimits(job *batchv1.Job) {
	spec := &job.Spec
	var total, perIndex, maxFailed *int32
	isPerIndexOfUser := a.isPerIndexOfUser(job)
	// The default of backoffLimit is not 6 in a Job with backoffLimitPerIndex, so 6 is from the user.
	if limit := a.plan.JobFailureLimit; limit > 0 && !isPerIndexOfUser {
		total = ptr.To(gang.UnlimitedBackoffLimit)
		if spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever {
			perIndex, maxFailed = ptr.To(limit), ptr.To[int32](0)
		} else {
			total = ptr.To(multiplyLimit(limit, a.gang))
		}
	}
	if a.plan.JobFailureLimit > 0 && isPerIndexOfUser {
		maxFailed = ptr.To[int32](0) // a failed index never runs again, and its peers would wait for it
	}
	a.applyLimit(fieldBackoffLimit, &spec.BackoffLimit, total, !gang.IsDefaultBackoffLimit(spec.BackoffLimit))
	a.applyLimit(fieldBackoffLimitPerIndex, &spec.BackoffLimitPerIndex, perIndex, spec.BackoffLimitPerIndex != nil)
	a.applyLimit(fieldMaxFailedIndexes, &spec.MaxFailedIndexes, maxFailed, spec.MaxFailedIndexes != nil)
}

// multiplyLimit returns a limit for the sum of all ranks of the workload, at its largest size.
func multiplyLimit(limit int32, g gang.Gang) int32 {
	own := g.OwnMember()
	size := own.Size
	if g.IsElasticRole(own.Role) {
		size = max(size, g.Elastic.Max)
	}
	return int32(min(int64(limit)*int64(size), math.MaxInt32-1))
}

// applyLimit sets and records a limit. A planned value of nil removes a recorded value.
func (a *applier) applyLimit(name string, limit **int32, planned *int32, exists bool) {
	isOwn := isOwnLimit(a.record.Values[name], *limit)
	delete(a.record.Values, name)
	o := decide(relate(exists, isOwn, false), plan.KeepUser)
	switch {
	case o == write && planned != nil:
		*limit, a.record.Values[name] = planned, formatLimit(*planned)
	case isOwn:
		*limit = nil
	}
}

// hasLimitOfUser reports whether the user limits the failed pods of a Job.
func (a *applier) hasLimitOfUser(job *batchv1.Job) bool {
	total := job.Spec.BackoffLimit
	isTotalOfUser := !gang.IsDefaultBackoffLimit(total) && !isOwnLimit(a.record.Values[fieldBackoffLimit], total)
	return isTotalOfUser || a.isPerIndexOfUser(job)
}

// isPerIndexOfUser reports whether the user limits the failed pods of each index of a Job.
func (a *applier) isPerIndexOfUser(job *batchv1.Job) bool {
	limit := job.Spec.BackoffLimitPerIndex
	return limit != nil && !isOwnLimit(a.record.Values[fieldBackoffLimitPerIndex], limit)
}

// isOwnLimit reports whether an earlier admission set the limit and nobody has edited it since.
func isOwnLimit(recorded string, limit *int32) bool {
	return limit != nil && recorded == formatLimit(*limit)
}

func formatLimit(limit int32) string { return strconv.Itoa(int(limit)) }

// WithoutOwnBackoffLimit returns a Job without the backoffLimit that an earlier admission set, as its
// user wrote it. It returns job itself if there is nothing to remove, and a shallow copy otherwise. The
// backoffLimit of a user is the default of the number of restarts.
func WithoutOwnBackoffLimit(job *batchv1.Job) *batchv1.Job {
	isPerIndex := job.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever
	if isPerIndex || gang.IsDefaultBackoffLimit(job.Spec.BackoffLimit) {
		return job // the usual case, in which the record need not be read
	}
	record, err := ReadRecord(gang.Workload{Job: job})
	if err != nil || record == nil || !isOwnLimit(record.Values[fieldBackoffLimit], job.Spec.BackoffLimit) {
		return job
	}
	view := *job
	view.Spec.BackoffLimit = nil
	return &view
}
