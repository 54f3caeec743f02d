package gang

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SelectCached returns a workload with the fields that a manager keeps in memory: those that parsing and the
// lifecycle read. It has neither owners, finalizers nor most keys of others, and no selector, volumes or probes.
// The maps and containers of the result are new. The rest shares its memory with w.
func (w Workload) SelectCached() Workload {
	if w.Job != nil {
		job := *w.Job
		job.ObjectMeta, job.Spec.Selector = selectMetadata(&job.ObjectMeta), nil
		job.Spec.Template = selectTemplate(&job.Spec.Template)
		return Workload{Job: &job}
	}
	set := *w.StatefulSet
	set.ObjectMeta, set.Spec.Selector = selectMetadata(&set.ObjectMeta), nil
	set.Spec.VolumeClaimTemplates = nil
	set.Spec.Template = selectTemplate(&set.Spec.Template)
	return Workload{StatefulSet: &set}
}

func selectMetadata(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		DeletionGracePeriodSeconds: meta.DeletionGracePeriodSeconds,
		Labels:                     SelectKeys(meta.Labels), Annotations: SelectKeys(meta.Annotations),
	}
}

// readKeys are the labels and annotations that a manager reads.
var readKeys = func() map[string]bool {
	out := map[string]bool{
		LabelQueueName: true, LabelMaxExecutionTime: true, LabelPrebuiltWorkload: true, LabelRankOffset: true,
		LabelAttempt: true, AnnotationDefaultContainer: true,
		AnnotationVolcanoGroup: true, AnnotationKAIGroup: true, AnnotationKAITopology: true,
	}
	for _, k := range keys {
		out[k.Name] = true
	}
	return out
}()

// SelectKeys returns a new map with the labels or annotations that a manager reads; nil if there are none.
func SelectKeys(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		if readKeys[key] {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// selectTemplate keeps all labels, because variables can refer to them.
func selectTemplate(template *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	spec := &template.Spec
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: SelectKeys(template.Annotations)},
		Spec: corev1.PodSpec{
			RestartPolicy:     spec.RestartPolicy,
			Hostname:          spec.Hostname,
			Subdomain:         spec.Subdomain,
			SetHostnameAsFQDN: spec.SetHostnameAsFQDN,
			HostNetwork:       spec.HostNetwork,
			DNSPolicy:         spec.DNSPolicy,
			SchedulingGates:   spec.SchedulingGates,
			ResourceClaims:    spec.ResourceClaims,
			SchedulerName:     spec.SchedulerName,
			SchedulingGroup:   spec.SchedulingGroup,
			PriorityClassName: spec.PriorityClassName,
			Affinity:          spec.Affinity,
			Resources:         spec.Resources,
			Containers:        selectContainers(spec.Containers),
			InitContainers:    selectContainers(spec.InitContainers),
		},
	}
}

func selectContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = corev1.Container{
			Name: c.Name, Command: c.Command, Args: c.Args, Env: c.Env, EnvFrom: c.EnvFrom,
			Resources: c.Resources, RestartPolicy: c.RestartPolicy,
		}
	}
	return out
}

// measureCached returns the approximate number of bytes of memory that a workload needs in a manager, without its
// status. A text that is longer than [MaxCachedText] counts as this length.
func (w Workload) measureCached() int {
	cached := w.SelectCached()
	delete(cached.Meta().Annotations, AnnotationStatus)
	delete(cached.Meta().Annotations, AnnotationSuspendedBy)
	return MeasureMemory(cached.Object(), MaxCachedText)
}

// MeasureMemory returns the approximate number of bytes of memory to which a pointer refers, with the
// texts, lists, maps and pointers in it. A text that is longer than maxText counts as maxText.
func MeasureMemory(value any, maxText int) int {
	return measureReferred(reflect.ValueOf(value), maxText)
}

// measureReferred returns the memory outside of a value.
func measureReferred(v reflect.Value, maxText int) int {
	const allocation = 16 // the allocator rounds up
	size := 0
	switch v.Kind() {
	case reflect.String:
		return (min(v.Len(), maxText) + allocation - 1) / allocation * allocation
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() {
			return 0
		}
		return int(v.Elem().Type().Size()) + allocation + measureReferred(v.Elem(), maxText)
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			size += measureReferred(v.Index(i), maxText)
		}
	case reflect.Map:
		// At most half of the slots of a map that grew are empty.
		size = v.Len() * 2 * int(v.Type().Key().Size()+v.Type().Elem().Size())
		for entries := v.MapRange(); entries.Next(); {
			size += measureReferred(entries.Key(), maxText) + measureReferred(entries.Value(), maxText)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			size += measureReferred(v.Field(i), maxText)
		}
	}
	return size
}
