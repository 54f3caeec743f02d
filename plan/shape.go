package plan

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Paths below spec of the names that shape derives from the gang's.
const (
	fieldSubdomain   = "template.spec.subdomain"
	fieldServiceName = "serviceName"
)

// shape sets the fields that make a workload able to be a gang at all: pods with
// an index, a stable hostname, a common subdomain, and all started at once. Where
// the API server has put a default before admission, the default cannot be told
// from a wish; gang.Parse refuses what cannot be a wish for a gang.
func (a *applier) shape(w gang.Workload, old *Record) {
	fields := map[string]string{}
	if old != nil {
		maps.Copy(fields, old.Fields)
	}
	set := func(name string, apply bool, value string, f func()) {
		if apply {
			f()
			fields[name] = value
		}
	}
	spec := &w.Template().Spec
	size := strconv.Itoa(int(a.gang.Own().Size))
	if job := w.Job; job != nil {
		set("completionMode", ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.IndexedCompletion,
			string(batchv1.IndexedCompletion), func() { job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) })
		set("completions", job.Spec.Completions == nil, size, func() { job.Spec.Completions = ptr.To(a.gang.Own().Size) })
		set("parallelism", job.Spec.Parallelism == nil, size, func() { job.Spec.Parallelism = ptr.To(a.gang.Own().Size) })
		set("successPolicy", a.plan.SuccessOfFirst && job.Spec.SuccessPolicy == nil, "0", func() {
			job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
		})
		a.limits(job, fields)
		set(fieldSubdomain, spec.Subdomain == "", a.gang.Service, func() { spec.Subdomain = a.gang.Service })
	}
	if sts := w.StatefulSet; sts != nil {
		set(fieldServiceName, sts.Spec.ServiceName == "", a.gang.Service, func() { sts.Spec.ServiceName = a.gang.Service })
		set("podManagementPolicy", sts.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
			string(appsv1.ParallelPodManagement), func() { sts.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	}
	// A namespace with many Services otherwise gives each process thousands of
	// variables, among them, for a Service called "master", a MASTER_PORT.
	set("template.spec.enableServiceLinks", ptr.Deref(spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks),
		"false", func() { spec.EnableServiceLinks = ptr.To(false) })
	if len(fields) > 0 {
		a.record.Fields = fields
	}
}

// Rename takes back the names that an earlier admission derived, in a workload
// that is being created: a manifest that was saved with its injection and renamed
// is another gang, and derives its own. A record that cannot be read takes nothing
// back; Apply reports it.
func Rename(w gang.Workload) {
	r, err := ReadRecord(w)
	if err != nil || r == nil {
		return
	}
	if sub := &w.Template().Spec.Subdomain; *sub != "" && *sub == r.Fields[fieldSubdomain] {
		*sub = ""
	}
	if w.StatefulSet != nil {
		if name := &w.StatefulSet.Spec.ServiceName; *name != "" && *name == r.Fields[fieldServiceName] {
			*name = ""
		}
	}
}
