package simulation

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateJobUpdate rejects a changed template, unless only metadata or the node affinity of a suspended Job without
// active pods changes
// (kubernetes pkg/registry/batch/job/strategy.go).
func validateJobUpdate(before, after *batchv1.Job) error {
	template := after.Spec.Template.DeepCopy()
	canChange := before.Status.StartTime == nil || hasJobCondition(before, batchv1.JobSuspended)
	if ptr.Deref(before.Spec.Suspend, false) && canChange && before.Status.Active == 0 {
		template.Labels, template.Annotations = before.Spec.Template.Labels, before.Spec.Template.Annotations
		template.Spec.Affinity = before.Spec.Template.Spec.Affinity // no scenario has other rules than for nodes
	}
	if !equality.Semantic.DeepEqual(before.Spec.Template, *template) {
		return invalidJob(after, "spec.template: field is immutable")
	}
	completions, parallelism := ptr.Deref(after.Spec.Completions, 0), ptr.Deref(after.Spec.Parallelism, 0)
	if completions != ptr.Deref(before.Spec.Completions, 0) && completions != parallelism {
		return invalidJob(after, "spec.completions: must equal parallelism")
	}
	return nil
}

// validateJobStatus rejects a start time that changes while the Job runs, a result without a start time, and a
// counter that decreases (kubernetes pkg/registry/batch/job/strategy.go, getStatusValidationOptions).
func validateJobStatus(before, after *batchv1.Job) error {
	isSuspended := ptr.Deref(after.Spec.Suspend, false)
	isResuming := hasJobCondition(before, batchv1.JobSuspended) && !hasJobCondition(after, batchv1.JobSuspended)
	hasNewTime := !before.Status.StartTime.Equal(after.Status.StartTime)
	if before.Status.StartTime != nil && hasNewTime && !isSuspended && !isResuming {
		return invalidJob(after, "status.startTime: field is immutable for unsuspended job once set")
	}
	isEmpty := isSuspended && ptr.Deref(after.Spec.Completions, 1) == 0
	isNew := hasNewTime || isJobFinished(before) != isJobFinished(after)
	if isNew && isJobFinished(after) && after.Status.StartTime == nil && !isEmpty {
		return invalidJob(after, "status.startTime: required for finished job")
	}
	if after.Status.Succeeded < before.Status.Succeeded && !ptr.Equal(after.Spec.Completions, after.Spec.Parallelism) {
		return invalidJob(after, "status.succeeded: cannot decrease the succeeded counter")
	}
	return nil
}

func invalidJob(job *batchv1.Job, text string) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, job.Name,
		field.ErrorList{field.Forbidden(field.NewPath("Job"), text)})
}
