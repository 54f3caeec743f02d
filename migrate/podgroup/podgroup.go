package podgroup

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/origin"
)

// Marks by which a pod belongs to a PodGroup: an annotation for Volcano
// (pkg/scheduler/api/job_info.go), a label for scheduler-plugins' coscheduling
// (apis/scheduling/v1alpha1).
const (
	volcanoGroup      = "scheduling.k8s.io/group-name"
	coschedulingGroup = "scheduling.x-k8s.io/pod-group"
)

// Wish is what a gang asks of its scheduler. The zero value asks for all pods at once.
type Wish struct {
	// Annotations are those of the PodGroup itself, such as Volcano's of preemption.
	Annotations map[string]string
	// MinMember is how many pods have to find a place together; nil means all.
	MinMember *int32
	// Queue is Volcano's; empty leaves it to the scheduler.
	Queue string
	// MinResources are what the first pods need together; nil leaves it to the scheduler.
	MinResources corev1.ResourceList
	// PriorityClass is the group's; empty means none.
	PriorityClass string
	// TimeoutSeconds is how long coscheduling waits for the pods; nil leaves it to the
	// scheduler.
	TimeoutSeconds *int32
	// NetworkTopology is how close to each other Volcano places the pods, as its PodGroup
	// writes it; nil leaves it to the scheduler.
	NetworkTopology map[string]any
}

// Apply makes the pods of the gang members of one PodGroup, which it adds to the gang.
// It reports false, and does nothing, where there is no gang scheduler.
func (w Wish) Apply(b *blueprint.Blueprint, s origin.Scheduler) bool {
	pods := int32(0)
	for _, r := range b.Roles {
		pods += r.Pods
	}
	if w.MinMember != nil {
		pods = *w.MinMember
	}
	spec := map[string]any{"minMember": int64(pods)}
	if len(w.MinResources) > 0 {
		least := map[string]any{}
		for name, q := range w.MinResources {
			least[string(name)] = q.String()
		}
		spec["minResources"] = least
	}
	var version string
	switch s {
	case origin.Volcano:
		version = "scheduling.volcano.sh/v1beta1"
		set(spec, "queue", w.Queue)
		set(spec, "priorityClassName", w.PriorityClass)
		if w.NetworkTopology != nil {
			spec["networkTopology"] = w.NetworkTopology
		}
	case origin.Coscheduling:
		version = "scheduling.x-k8s.io/v1alpha1"
		if w.TimeoutSeconds != nil {
			spec["scheduleTimeoutSeconds"] = int64(*w.TimeoutSeconds)
		}
	default:
		return false
	}
	if s == origin.Coscheduling && slices.ContainsFunc(b.Roles, func(r blueprint.Role) bool { return r.Template.Spec.SchedulerName == "" }) {
		b.Node.Note("some pods name no scheduler, so the default one places them, which may know nothing of coscheduling",
			"set schedulerName in the pod templates where coscheduling is a scheduler beside the default one")
	}
	for i := range b.Roles {
		w.mark(&b.Roles[i].Template, b.Name, s)
	}
	group := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": "PodGroup", "spec": spec}}
	group.SetName(b.Name)
	group.SetNamespace(b.Namespace)
	if len(w.Annotations) > 0 {
		group.SetAnnotations(w.Annotations)
	}
	b.Extras = append(b.Extras, func(func(string) blueprint.Place) runtime.Object { return group })
	return true
}

// mark makes a pod a member of the group.
func (w Wish) mark(t *corev1.PodTemplateSpec, group string, s origin.Scheduler) {
	if s == origin.Coscheduling {
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[coschedulingGroup] = group
		t.Spec.PriorityClassName = cmp.Or(t.Spec.PriorityClassName, w.PriorityClass)
		return
	}
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	t.Annotations[volcanoGroup] = group
	t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, string(origin.Volcano))
}

func set(spec map[string]any, key, value string) {
	if value != "" {
		spec[key] = value
	}
}
