package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// volcano is the scheduler of Volcano. Its controller creates no PodGroup for pods that name one (volcano
// pkg/controllers/podgroup).
type volcano struct{}

func (volcano) Versions() []schema.GroupVersion {
	return []schema.GroupVersion{{Group: "scheduling.volcano.sh", Version: "v1beta1"}}
}

func (volcano) Requirement() string { return "the CustomResourceDefinitions of Volcano" }

func (volcano) PlanPods(p *plan.Plan, placement gang.Placement) {
	p.SchedulerName = placement.SchedulerName
	p.PodAnnotations = append(p.PodAnnotations,
		plan.Label{Name: gang.AnnotationVolcanoGroup, Value: placement.PodGroup, Policy: plan.Warn})
}

func (volcano) ReadGroup(template *corev1.PodTemplateSpec) string {
	return template.Annotations[gang.AnnotationVolcanoGroup]
}

func (volcano) BuildSpec(_ string, g Group) map[string]any {
	return setPriority(map[string]any{"minMember": int64(g.MinCount)}, g)
}

func (volcano) CanResize(string) bool { return true }

// ReservesWithoutPods is true because a PodGroup in the phase Inqueue keeps its share of the queue (volcano
// pkg/scheduler/framework, getPodGroupPhase).
func (volcano) ReservesWithoutPods() bool { return true }
