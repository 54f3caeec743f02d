package controller

import (
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// annotationTooLarge marks a workload in the cache that is too large to be followed. The API server
// rejects the key because of the space, so users cannot set it.
const annotationTooLarge = gang.Prefix + "too large"

// TrimWorkload is a transform function of the cache. It returns a Job or a StatefulSet without the fields
// that the reconciler does not read: the selector, volumes, probes, scheduling, and annotations of others. A workload
// that is still larger than gang.MaxTemplateBytes loses its containers and is not followed. TrimWorkload
// does not change its argument. Objects of other types are returned unchanged.
func TrimWorkload(o any) (any, error) {
	switch workload := o.(type) {
	case *batchv1.Job:
		out := *workload
		out.ObjectMeta = trimObjectMetadata(&workload.ObjectMeta)
		out.Spec.Selector = nil
		out.Spec.Template = trimTemplate(&workload.Spec.Template, &out.ObjectMeta)
		return &out, nil
	case *appsv1.StatefulSet:
		out := *workload
		out.ObjectMeta = trimObjectMetadata(&workload.ObjectMeta)
		out.Spec.Selector, out.Spec.VolumeClaimTemplates = nil, nil
		out.Spec.Template = trimTemplate(&workload.Spec.Template, &out.ObjectMeta)
		return &out, nil
	default:
		return o, nil // a tombstone
	}
}

// KeepWorkload is a transform function of the cache for clusters with a policy, whose rules can read each
// field of a workload. It returns a Job or a StatefulSet without managedFields and without the copy of the
// manifest that kubectl keeps. A workload whose template is larger than gang.MaxTemplateBytes is trimmed
// as [TrimWorkload] does. KeepWorkload does not change its argument.
func KeepWorkload(o any) (any, error) {
	switch workload := o.(type) {
	case *batchv1.Job:
		if gang.MeasureTemplate(&workload.Spec.Template, math.MaxInt) <= gang.MaxTemplateBytes {
			out := *workload
			out.ObjectMeta = keepWorkloadMetadata(&workload.ObjectMeta)
			return &out, nil
		}
	case *appsv1.StatefulSet:
		if gang.MeasureTemplate(&workload.Spec.Template, math.MaxInt) <= gang.MaxTemplateBytes {
			out := *workload
			out.ObjectMeta = keepWorkloadMetadata(&workload.ObjectMeta)
			return &out, nil
		}
	}
	return TrimWorkload(o)
}

// keepWorkloadMetadata returns metadata without managedFields and the manifest of kubectl apply.
func keepWorkloadMetadata(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	out := *meta
	out.ManagedFields = nil
	if _, ok := meta.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		out.Annotations = maps.Clone(meta.Annotations)
		delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return out
}

// trimObjectMetadata returns metadata without managedFields and without annotations of others.
func trimObjectMetadata(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	out := *meta
	out.ManagedFields = nil
	out.Namespace, out.Labels = intern(meta.Namespace), internLabels(meta.Labels)
	out.Annotations = selectKeys(meta.Annotations)
	return out
}

// selectKeys returns the annotations that the reconciler reads; nil if there are none.
func selectKeys(annotations map[string]string) map[string]string {
	var out map[string]string
	for key, value := range annotations {
		if strings.HasPrefix(key, gang.Prefix) || key == gang.AnnotationDefaultContainer {
			if out == nil {
				out = map[string]string{}
			}
			out[intern(key)] = value
		}
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

// trimTemplate returns a pod template with the fields that parsing reads. If the template is too large,
// it removes the containers and marks the metadata of the workload.
func trimTemplate(template *corev1.PodTemplateSpec, meta *metav1.ObjectMeta) corev1.PodTemplateSpec {
	spec := &template.Spec
	out := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: internLabels(template.Labels), Annotations: selectKeys(template.Annotations)},
		Spec: corev1.PodSpec{
			RestartPolicy:     spec.RestartPolicy,
			Hostname:          spec.Hostname,
			Subdomain:         spec.Subdomain,
			SetHostnameAsFQDN: spec.SetHostnameAsFQDN,
			HostNetwork:       spec.HostNetwork,
			DNSPolicy:         spec.DNSPolicy,
			SchedulingGates:   spec.SchedulingGates,
			ResourceClaims:    spec.ResourceClaims,
			Containers:        trimContainers(spec.Containers),
			InitContainers:    trimContainers(spec.InitContainers),
		},
	}
	if gang.MeasureTemplate(&out, math.MaxInt) > gang.MaxTemplateBytes {
		shortenTexts(out.Spec.Containers)
		shortenTexts(out.Spec.InitContainers)
	}
	if gang.MeasureTemplate(&out, gang.MaxCachedText) > gang.MaxTemplateBytes {
		out.Spec.Containers, out.Spec.InitContainers = nil, nil
		annotations := map[string]string{annotationTooLarge: ""}
		if status, ok := meta.Annotations[gang.AnnotationStatus]; ok {
			annotations[gang.AnnotationStatus] = status
		}
		meta.Annotations = annotations
	}
	return out
}

// trimContainers keeps names, resources, commands and variables.
func trimContainers(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for i := range containers {
		c := &containers[i]
		out = append(out, corev1.Container{
			Name:          intern(c.Name),
			Command:       internTexts(c.Command),
			Args:          internTexts(c.Args),
			Env:           internVariables(c.Env),
			EnvFrom:       c.EnvFrom,
			Resources:     c.Resources,
			RestartPolicy: c.RestartPolicy,
		})
	}
	return out
}

// internTexts returns texts that share their memory with those of other gangs.
func internTexts(texts []string) []string {
	out := slices.Clone(texts)
	for i := range out {
		out[i] = intern(out[i])
	}
	return out
}

// internVariables returns variables that share the memory of their texts with those of other gangs. The gangs of
// a cluster have most variables in common.
func internVariables(env []corev1.EnvVar) []corev1.EnvVar {
	out := slices.Clone(env)
	for i := range out {
		out[i].Name, out[i].Value = intern(out[i].Name), intern(out[i].Value)
	}
	return out
}

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

// isTooLarge reports whether a workload of the cache is too large to be followed.
func isTooLarge(w gang.Workload) bool {
	_, marked := w.Meta().Annotations[annotationTooLarge]
	return marked
}

// reportTooLarge records that Rollcall does not follow a workload. Admission denies such a workload, so
// the workload was created while no webhook was called.
func (r *Reconciler) reportTooLarge(w gang.Workload) {
	r.recordWarning(w, gang.ReasonTooLarge, eventActionCheckInjection,
		"Rollcall does not follow the workload because its pod template is larger than %d KiB. "+
			"Move data from variables and arguments to a ConfigMap or a volume, and recreate the workload",
		gang.MaxTemplateBytes>>10)
}
