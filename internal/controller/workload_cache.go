package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
)

// The API server rejects these keys because of the space, so users cannot set them. client-go passes the objects of a
// first list to a transform function twice, and the second call must keep the keys.
const (
	// annotationTooLarge marks an object in the cache that is too large to be kept.
	annotationTooLarge = gang.Prefix + "too large"
	// annotationDigest identifies the content of the whole workload.
	annotationDigest = gang.Prefix + "digest of content"
)

// maxInternedBytes is the memory of a workload whose texts are shared with those of other gangs. The texts of
// larger workloads are rarely those of others, and a shared text needs more memory than its own.
const maxInternedBytes = 16 << 10

// TrimWorkload is a transform function of the cache. It returns a Job or a StatefulSet with the fields that the
// reconciler reads, see [gang.Workload.SelectCached]. It truncates long texts of a workload that is larger than
// gang.MaxCachedBytes. A workload that is still larger loses its pod template and is not followed. A workload
// that was not injected or has opted out has no containers. TrimWorkload does not change its argument. Objects of
// other types are returned unchanged.
func TrimWorkload(o any) (any, error) {
	if whole, ok := workloadOf(o); ok {
		return trimWorkload(whole).Object(), nil
	}
	return o, nil // a tombstone
}

// DigestWorkload is a transform function of the cache for clusters with a policy, whose rules can read each
// field of a workload. It is [TrimWorkload], and the result identifies the content of the whole workload. The
// reconciler reads the whole workload from the API server if the content changed.
func DigestWorkload(o any) (any, error) {
	whole, ok := workloadOf(o)
	if !ok {
		return o, nil // a tombstone
	}
	if _, done := whole.Meta().Annotations[annotationDigest]; done {
		return o, nil
	}
	trimmed, digest := trimWorkload(whole), digestContent(whole)
	if annotations := trimmed.Meta().Annotations; digest != "" && annotations != nil {
		annotations[annotationDigest] = digest
	}
	return trimmed.Object(), nil
}

func workloadOf(o any) (gang.Workload, bool) {
	object, _ := o.(runtime.Object)
	w, err := gang.WorkloadOf(object)
	return w, err == nil
}

func trimWorkload(whole gang.Workload) gang.Workload {
	if isTooLarge(whole.Meta()) {
		return whole
	}
	out := whole.SelectCached()
	if !out.IsInjected() || out.OptedOut() {
		dropTemplate(out)
	}
	size := gang.MeasureMemory(out.Object(), math.MaxInt)
	switch {
	case size <= maxInternedBytes:
		internWorkload(out)
		return out
	case size <= gang.MaxCachedBytes:
		return out
	}
	shortenTexts(out.Template().Spec.Containers)
	shortenTexts(out.Template().Spec.InitContainers)
	if gang.MeasureMemory(out.Object(), math.MaxInt) > gang.MaxCachedBytes {
		markTooLarge(out)
	}
	return out
}

// dropTemplate removes what only the injector of a gang reads.
func dropTemplate(w gang.Workload) {
	template := w.Template()
	*template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: gang.SelectKeys(template.Labels)}}
	if w.Job != nil {
		w.Job.Spec.PodFailurePolicy, w.Job.Spec.SuccessPolicy = nil, nil
	}
}

// markTooLarge removes all parts of a workload that can be large.
func markTooLarge(w gang.Workload) {
	const maxStatusBytes = gang.MaxCachedBytes / 8
	dropTemplate(w)
	annotations := map[string]string{annotationTooLarge: ""}
	if status, ok := w.Meta().Annotations[gang.AnnotationStatus]; ok && len(status) <= maxStatusBytes {
		annotations[gang.AnnotationStatus] = status
	}
	if by := w.Meta().Annotations[gang.AnnotationSuspendedBy]; by == gang.SuspendedByRollcall {
		annotations[gang.AnnotationSuspendedBy] = by
	}
	w.Meta().Annotations = annotations
	switch {
	case w.StatefulSet != nil:
		w.StatefulSet.Spec.ServiceName, w.StatefulSet.Status = "", appsv1.StatefulSetStatus{}
	case gang.MeasureMemory(&w.Job.Status, math.MaxInt) > maxStatusBytes:
		w.Job.Status = batchv1.JobStatus{}
	}
}

// digestContent identifies the content of a workload except for its status. It is empty if the workload cannot
// be encoded.
func digestContent(w gang.Workload) string {
	var text []byte
	var err error
	if w.Job != nil {
		job := *w.Job
		job.ManagedFields, job.ResourceVersion, job.Status = nil, "", batchv1.JobStatus{}
		text, err = job.Marshal()
	} else {
		set := *w.StatefulSet
		set.ManagedFields, set.ResourceVersion, set.Status = nil, "", appsv1.StatefulSetStatus{}
		text, err = set.Marshal()
	}
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// internWorkload makes a workload share the memory of its texts with other gangs.
func internWorkload(w gang.Workload) {
	meta, template := w.Meta(), w.Template()
	meta.Namespace, meta.Labels = intern(meta.Namespace), internLabels(meta.Labels)
	meta.Annotations, template.Annotations = internKeys(meta.Annotations), internKeys(template.Annotations)
	template.Labels = internLabels(template.Labels)
	for _, containers := range [][]corev1.Container{template.Spec.Containers, template.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Name, c.Command, c.Args = intern(c.Name), internEach(c.Command, internText), internEach(c.Args, internText)
			// The gangs of a cluster have most variables in common.
			c.Env = internEach(c.Env, func(v *corev1.EnvVar) { v.Name, v.Value = intern(v.Name), intern(v.Value) })
		}
	}
}

// internKeys returns annotations whose keys share their memory with those of other gangs; nil for nil.
func internKeys(annotations map[string]string) map[string]string {
	if annotations == nil {
		return nil
	}
	out := make(map[string]string, len(annotations))
	for key, value := range annotations {
		out[intern(key)] = value
	}
	return out
}

// internLabels returns labels that share the memory of their texts with those of other gangs; nil for nil.
func internLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[intern(key)] = intern(value)
	}
	return out
}

// internEach returns a copy of a list whose elements share the memory of their texts with those of other objects.
func internEach[T any](list []T, internTexts func(*T)) []T {
	out := slices.Clone(list)
	for i := range out {
		internTexts(&out[i])
	}
	return out
}

func internText(text *string) { *text = intern(*text) }

// shortenTexts truncates the long texts of containers. It copies the lists, which the original shares.
func shortenTexts(containers []corev1.Container) {
	shorten := func(texts []string) []string {
		out := make([]string, len(texts))
		for i, text := range texts {
			out[i] = strings.Clone(text[:min(len(text), gang.MaxCachedText)]) // a part would keep the whole text in memory
		}
		return out
	}
	for i := range containers {
		c := &containers[i]
		c.Command, c.Args = shorten(c.Command), shorten(c.Args)
		env := make([]corev1.EnvVar, len(c.Env))
		for j := range c.Env {
			env[j] = c.Env[j]
			env[j].Value = shorten([]string{c.Env[j].Value})[0]
		}
		c.Env = env
	}
}

// isTooLarge reports whether an object of the cache was too large to be kept.
func isTooLarge(o metav1.Object) bool {
	_, marked := o.GetAnnotations()[annotationTooLarge]
	return marked
}

// reportTooLarge records that Rollcall does not follow a workload. Admission denies such a workload, so
// the workload was created while no webhook was called.
func (r *Reconciler) reportTooLarge(w gang.Workload) {
	r.recordWarning(w, gang.ReasonTooLarge, eventActionCheckInjection,
		"Rollcall does not follow the workload because it needs more than %d KiB of memory. "+
			"Move data from variables and arguments to a ConfigMap or a volume, and recreate the workload",
		gang.MaxCachedBytes>>10)
}
