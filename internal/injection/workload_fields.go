package injection

import (
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// The fields in a [Record]: their paths below spec.
const (
	fieldBackoffLimit         = KindField + "/backoffLimit"
	fieldBackoffLimitPerIndex = KindField + "/backoffLimitPerIndex"
	fieldMaxFailedIndexes     = KindField + "/maxFailedIndexes"
	fieldCompletionMode       = KindField + "/completionMode"
	fieldCompletions          = KindField + "/completions"
	fieldParallelism          = KindField + "/parallelism"
	fieldSuccessPolicy        = KindField + "/successPolicy"
	fieldPodManagementPolicy  = KindField + "/podManagementPolicy"
	fieldServiceName          = KindField + "/serviceName"
	fieldSubdomain            = KindField + "/template.spec.subdomain"
	fieldEnableServiceLinks   = KindField + "/template.spec.enableServiceLinks"
)

// firstIndex is the index of the first pod in a successPolicy.
const firstIndex = "0"

// applyWorkloadFields sets the fields that every gang needs: pods with an index, stable hostnames and
// a common subdomain, which all start at the same time. A default of the API server cannot be
// distinguished from a value of the user and is replaced. gang.Parse rejects values that are neither
// a default nor valid for a gang.
func (a *applier) applyWorkloadFields() {
	if a.workload.Job != nil {
		a.applyJobFields(a.workload.Job)
	} else {
		spec := &a.workload.StatefulSet.Spec
		applyField(a, fieldServiceName, &spec.ServiceName, a.gang.ServiceName, spec.ServiceName == "")
		applyField(a, fieldPodManagementPolicy, &spec.PodManagementPolicy, appsv1.ParallelPodManagement,
			spec.PodManagementPolicy != appsv1.ParallelPodManagement)
		a.denyDeletedClaims(spec)
	}
	// Otherwise the kubelet sets variables for all Services of the namespace: thousands in a large
	// namespace, and MASTER_PORT for a Service named "master".
	spec := &a.workload.Template().Spec
	applyField(a, fieldEnableServiceLinks, &spec.EnableServiceLinks, ptr.To(false),
		ptr.Deref(spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks))
}

// denyDeletedClaims denies a StatefulSet whose claims a restart deletes, because it scales the StatefulSet to 0.
func (a *applier) denyDeletedClaims(spec *appsv1.StatefulSetSpec) {
	policy := spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || policy.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		return
	}
	path := field.NewPath("spec", "persistentVolumeClaimRetentionPolicy", "whenScaled")
	retain := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	a.deny(field.Invalid(path, policy.WhenScaled, fmt.Sprintf("must be %s: a restart and the end of a gang scale "+
		"the StatefulSet to 0, which would delete the volumes of all ranks", retain)), gang.NewSetFix(path, retain))
}

func (a *applier) applyJobFields(job *batchv1.Job) {
	spec := &job.Spec
	size := a.gang.OwnMember().Size
	applyField(a, fieldCompletionMode, &spec.CompletionMode, ptr.To(batchv1.IndexedCompletion),
		ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.IndexedCompletion)
	applyField(a, fieldCompletions, &spec.Completions, ptr.To(size), spec.Completions == nil)
	applyField(a, fieldParallelism, &spec.Parallelism, ptr.To(size), spec.Parallelism == nil)
	a.applySuccessPolicy(job)
	a.applyBackoffLimits(job)
	subdomain := &spec.Template.Spec.Subdomain
	applyField(a, fieldSubdomain, subdomain, a.gang.ServiceName, *subdomain == "")
}

// applyField sets and records a field if it is absent.
func applyField[T any](a *applier, name string, to *T, planned T, isAbsent bool) {
	if decide(relate(!isAbsent, false, false), plan.KeepUser) == write {
		*to, a.record.Values[name] = planned, fmt.Sprint(reflect.Indirect(reflect.ValueOf(planned)))
	}
}

// applySuccessPolicy completes a Job with its first pod if the plan requires it. Otherwise it removes the
// policy of an earlier admission, for example from a saved manifest with a new success-policy.
func (a *applier) applySuccessPolicy(job *batchv1.Job) {
	isOwn := a.record.Values[fieldSuccessPolicy] != "" &&
		equality.Semantic.DeepEqual(job.Spec.SuccessPolicy, newFirstPodPolicy())
	switch relation := relate(job.Spec.SuccessPolicy != nil, isOwn, false); {
	case a.plan.CompleteWithFirstPod && decide(relation, plan.KeepUser) == write:
		job.Spec.SuccessPolicy, a.record.Values[fieldSuccessPolicy] = newFirstPodPolicy(), firstIndex
	case !a.plan.CompleteWithFirstPod && isOwn:
		job.Spec.SuccessPolicy = nil
		delete(a.record.Values, fieldSuccessPolicy)
	}
}

func newFirstPodPolicy() *batchv1.SuccessPolicy {
	return &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To(firstIndex)}}}
}

// ClearDerivedNames removes the names that an earlier admission derived from the name of the gang. It
// is for a workload that is being created: a saved manifest that was renamed is another gang, with
// other derived names. Without a valid record it changes nothing; [Apply] reports an invalid record.
func ClearDerivedNames(w gang.Workload) {
	r, err := ReadRecord(w)
	if err != nil || r == nil {
		return
	}
	clearIfRecorded(&w.Template().Spec.Subdomain, r.Values[fieldSubdomain])
	if w.StatefulSet != nil {
		clearIfRecorded(&w.StatefulSet.Spec.ServiceName, r.Values[fieldServiceName])
	}
}

// clearIfRecorded removes a value that is the same as the recorded value.
func clearIfRecorded(value *string, recorded string) {
	if *value == recorded {
		*value = ""
	}
}
