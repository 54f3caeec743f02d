package plan

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// shape sets the fields that make a workload able to be a gang at all: pods with
// an index, a stable hostname, a common subdomain, and all started at once. Where
// the API server has put a default before admission, the default cannot be told
// from a wish; gang.Parse refuses what cannot be a wish for a gang.
func (a *applier) shape(w gang.Workload, old *Record) {
	var changed []string
	set := func(name string, apply bool, f func()) {
		if apply {
			f()
			changed = append(changed, name)
		}
	}
	spec := &w.Template().Spec
	if job := w.Job; job != nil {
		set("completionMode", ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.IndexedCompletion,
			func() { job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) })
		set("completions", job.Spec.Completions == nil, func() { job.Spec.Completions = ptr.To(a.gang.Size) })
		set("parallelism", job.Spec.Parallelism == nil, func() { job.Spec.Parallelism = ptr.To(a.gang.Size) })
		set("template.spec.subdomain", spec.Subdomain == "", func() { spec.Subdomain = a.gang.Service })
	}
	if sts := w.StatefulSet; sts != nil {
		set("serviceName", sts.Spec.ServiceName == "", func() { sts.Spec.ServiceName = a.gang.Service })
		set("podManagementPolicy", sts.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
			func() { sts.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	}
	// A namespace with many Services otherwise gives each process thousands of
	// variables, among them, for a Service called "master", a MASTER_PORT.
	set("template.spec.enableServiceLinks", ptr.Deref(spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks),
		func() { spec.EnableServiceLinks = ptr.To(false) })

	a.record.Fields = changed
	if old != nil {
		for _, f := range old.Fields {
			if !slices.Contains(changed, f) {
				a.record.Fields = append(a.record.Fields, f)
			}
		}
		slices.Sort(a.record.Fields)
	} else {
		slices.Sort(a.record.Fields)
	}
}
