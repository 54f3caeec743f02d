package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// labelCoschedulingGroup is the label of a pod with the name of its PodGroup (scheduler-plugins
// apis/scheduling/v1alpha1, PodGroupLabel).
const labelCoschedulingGroup = "scheduling.x-k8s.io/pod-group"

// coscheduling is a scheduler with the plugin Coscheduling of scheduler-plugins.
type coscheduling struct{}

func (coscheduling) Versions() []schema.GroupVersion {
	return []schema.GroupVersion{{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}}
}

func (coscheduling) Requirement() string { return "the CustomResourceDefinitions of scheduler-plugins" }

func (coscheduling) Check(w gang.Workload, g gang.Gang) string {
	name := w.Template().Spec.SchedulerName
	if g.Placement.SchedulerName != "" || name != "" && name != corev1.DefaultSchedulerName {
		return ""
	}
	return "the name of the scheduler is not known; set spec.template.spec.schedulerName, " +
		"or ask an administrator to set the value scheduling.coschedulingName of the chart"
}

func (coscheduling) PlanPods(p *plan.Plan, g gang.Gang) {
	p.SchedulerName = g.Placement.SchedulerName
	p.PodLabels = append(p.PodLabels,
		plan.Label{Name: labelCoschedulingGroup, Value: g.Placement.PodGroup, Policy: plan.Warn})
}

func (coscheduling) ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement {
	return gang.Placement{PodGroup: template.Labels[labelCoschedulingGroup]}
}

// BuildSpec sets no priority: the plugin compares the priorities of pods.
func (coscheduling) BuildSpec(_ string, g Group) map[string]any {
	return map[string]any{"minMember": int64(g.MinCount)}
}

func (coscheduling) TopologySupport() TopologySupport { return TopologySupport{} }

func (coscheduling) CanResize(string) bool { return true }

func (coscheduling) ReservesWithoutPods() bool { return false }
