package plan

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Paths below spec of the fields that a [Record] contains.
const (
	fieldBackoffLimit         = "backoffLimit"
	fieldBackoffLimitPerIndex = "backoffLimitPerIndex"
	fieldMaxFailedIndexes     = "maxFailedIndexes"
	fieldCompletionMode       = "completionMode"
	fieldCompletions          = "completions"
	fieldParallelism          = "parallelism"
	fieldSuccessPolicy        = "successPolicy"
	fieldPodManagementPolicy  = "podManagementPolicy"
	fieldServiceName          = "serviceName"
	fieldSubdomain            = "template.spec.subdomain"
	fieldEnableServiceLinks   = "template.spec.enableServiceLinks"
)

// firstIndex is the index of the first pod in a successPolicy.
const firstIndex = "0"

// applyWorkloadFields sets the fields that every gang needs: pods with an index, stable hostnames and
// a common subdomain, which all start at the same time. A default of the API server cannot be
// distinguished from a value of the user and is replaced. gang.Parse rejects values that are neither
// a default nor valid for a gang.
func (a *applier) applyWorkloadFields(w gang.Workload, old *Record) {
	fields := map[string]string{}
	if old != nil {
		maps.Copy(fields, old.Fields)
	}
	if w.Job != nil {
		a.applyJobFields(w.Job, fields)
	} else {
		a.applyStatefulSetFields(w.StatefulSet, fields)
	}
	// Otherwise the kubelet sets variables for all Services of the namespace: thousands in a large
	// namespace, and MASTER_PORT for a Service named "master".
	spec := &w.Template().Spec
	if ptr.Deref(spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks) {
		spec.EnableServiceLinks, fields[fieldEnableServiceLinks] = ptr.To(false), "false"
	}
	if len(fields) > 0 {
		a.record.Fields = fields
	}
}

func (a *applier) applyJobFields(job *batchv1.Job, fields map[string]string) {
	spec := &job.Spec
	size := a.gang.OwnMember().Size
	if ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.IndexedCompletion {
		spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		fields[fieldCompletionMode] = string(batchv1.IndexedCompletion)
	}
	if spec.Completions == nil {
		spec.Completions, fields[fieldCompletions] = ptr.To(size), strconv.Itoa(int(size))
	}
	if spec.Parallelism == nil {
		spec.Parallelism, fields[fieldParallelism] = ptr.To(size), strconv.Itoa(int(size))
	}
	a.applySuccessPolicy(job, fields)
	a.applyBackoffLimits(job, fields)
	if subdomain := &spec.Template.Spec.Subdomain; *subdomain == "" {
		*subdomain, fields[fieldSubdomain] = a.gang.ServiceName, a.gang.ServiceName
	}
}

// applySuccessPolicy completes a Job with its first pod if the plan requires it. Otherwise it removes the
// policy of an earlier admission, for example from a saved manifest with a new success-policy.
func (a *applier) applySuccessPolicy(job *batchv1.Job, fields map[string]string) {
	planned := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To(firstIndex)}}}
	isOwn := fields[fieldSuccessPolicy] != "" && equality.Semantic.DeepEqual(job.Spec.SuccessPolicy, planned)
	switch {
	case a.plan.CompleteWithFirstPod && job.Spec.SuccessPolicy == nil:
		job.Spec.SuccessPolicy, fields[fieldSuccessPolicy] = planned, firstIndex
	case !a.plan.CompleteWithFirstPod && isOwn:
		job.Spec.SuccessPolicy = nil
		delete(fields, fieldSuccessPolicy)
	}
}

func (a *applier) applyStatefulSetFields(set *appsv1.StatefulSet, fields map[string]string) {
	spec := &set.Spec
	if spec.ServiceName == "" {
		spec.ServiceName, fields[fieldServiceName] = a.gang.ServiceName, a.gang.ServiceName
	}
	if spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		spec.PodManagementPolicy = appsv1.ParallelPodManagement
		fields[fieldPodManagementPolicy] = string(appsv1.ParallelPodManagement)
	}
}

// ClearDerivedNames removes the names that an earlier admission derived from the name of the gang. It
// is for a workload that is being created: a saved manifest that was renamed is another gang, with
// other derived names. Without a valid record it changes nothing; [Apply] reports an invalid record.
func ClearDerivedNames(w gang.Workload) {
	r, err := ReadRecord(w)
	if err != nil || r == nil {
		return
	}
	clearIfRecorded(&w.Template().Spec.Subdomain, r.Fields[fieldSubdomain])
	if w.StatefulSet != nil {
		clearIfRecorded(&w.StatefulSet.Spec.ServiceName, r.Fields[fieldServiceName])
	}
}

// clearIfRecorded removes a value that is the same as the recorded value.
func clearIfRecorded(value *string, recorded string) {
	if *value == recorded {
		*value = ""
	}
}
