package ir

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// Keys that assign a pod to a PodGroup: an annotation for Volcano (pkg/scheduler/api/job_info.go), a
// label for coscheduling of scheduler-plugins (apis/scheduling/v1alpha1).
const (
	volcanoGroupAnnotation = "scheduling.k8s.io/group-name"
	coschedulingGroupLabel = "scheduling.x-k8s.io/pod-group"
)

// PodGroup describes a PodGroup. The zero value requires all pods.
type PodGroup struct {
	// Annotations are those of the PodGroup, for example Volcano's preemption settings.
	Annotations map[string]string
	// MinMember is the number of pods that must be placed together. Nil means all pods.
	MinMember *int32
	// Queue is the queue of Volcano. Empty means the default of the scheduler.
	Queue string
	// MinResources are the resources of the first pods in total. Nil means the default of the
	// scheduler.
	MinResources corev1.ResourceList
	// PriorityClassName is the priority class, or empty.
	PriorityClassName string
	// ScheduleTimeoutSeconds is the time that coscheduling waits for the pods. Nil means the
	// default of the scheduler.
	ScheduleTimeoutSeconds *int32
	// NetworkTopology is the field of Volcano's PodGroup. Nil means no constraint.
	NetworkTopology map[string]any
}

// Apply adds the PodGroup to the gang and assigns all pods to it. It returns false, and does nothing,
// if there is no gang scheduler.
func (g PodGroup) Apply(b *Gang, s source.Scheduler) bool {
	pods := b.PodCount()
	if g.MinMember != nil {
		pods = *g.MinMember
	}
	spec := map[string]any{"minMember": int64(pods)}
	if len(g.MinResources) > 0 {
		minResources := map[string]any{}
		for name, q := range g.MinResources {
			minResources[string(name)] = q.String()
		}
		spec["minResources"] = minResources
	}
	var version string
	switch s {
	case source.SchedulerVolcano:
		version = "scheduling.volcano.sh/v1beta1"
		setIfNotEmpty(spec, "queue", g.Queue)
		setIfNotEmpty(spec, "priorityClassName", g.PriorityClassName)
		if g.NetworkTopology != nil {
			spec["networkTopology"] = g.NetworkTopology
		}
	case source.SchedulerCoscheduling:
		version = "scheduling.x-k8s.io/v1alpha1"
		if g.ScheduleTimeoutSeconds != nil {
			spec["scheduleTimeoutSeconds"] = int64(*g.ScheduleTimeoutSeconds)
		}
	default:
		return false
	}
	usesDefaultScheduler := func(r Role) bool { return r.Template.Spec.SchedulerName == "" }
	if s == source.SchedulerCoscheduling && slices.ContainsFunc(b.Roles, usesDefaultScheduler) {
		b.Source.AddNote("some pods do not have schedulerName, so the default scheduler places them",
			"if coscheduling is a plugin of another scheduler, set schedulerName in the pod templates")
	}
	for i := range b.Roles {
		g.assignPod(&b.Roles[i].Template, b.Name, s)
	}
	group := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": "PodGroup", "spec": spec}}
	group.SetName(b.Name)
	group.SetNamespace(b.Namespace)
	if len(g.Annotations) > 0 {
		group.SetAnnotations(g.Annotations)
	}
	b.AdditionalObjects = append(b.AdditionalObjects, group)
	return true
}

// PodGroupFields are the places of the fields of a PodGroup in a manifest. A place may be missing.
type PodGroupFields struct{ Queue, PriorityClass, ScheduleTimeout, NetworkTopology source.Field }

// Record records what the PodGroup of a scheduler has of the fields.
func (f PodGroupFields) Record(b *Gang, s source.Scheduler) {
	group := "PodGroup " + b.Name
	if s == source.SchedulerCoscheduling {
		f.PriorityClass.MarkPreserved("spec.priorityClassName of the pods")
		f.ScheduleTimeout.MarkPreserved(group)
		f.Queue.MarkDropped("coscheduling has no queues", "")
		f.NetworkTopology.MarkDropped("coscheduling has no network topology", "")
		return
	}
	for _, field := range []source.Field{f.PriorityClass, f.Queue, f.NetworkTopology} {
		field.MarkPreserved(group)
	}
	f.ScheduleTimeout.MarkDropped("Volcano has no such field",
		"set "+gang.AnnotationStartTimeout+" to restart a gang that is not ready in time")
}

// assignPod assigns the pods of a template to the PodGroup.
func (g PodGroup) assignPod(t *corev1.PodTemplateSpec, group string, s source.Scheduler) {
	if s == source.SchedulerCoscheduling {
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[coschedulingGroupLabel] = group
		t.Spec.PriorityClassName = cmp.Or(t.Spec.PriorityClassName, g.PriorityClassName)
		return
	}
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	t.Annotations[volcanoGroupAnnotation] = group
	t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, string(source.SchedulerVolcano))
}

func setIfNotEmpty(spec map[string]any, key, value string) {
	if value != "" {
		spec[key] = value
	}
}
