package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// annotationSkipPodGrouper is the annotation of a pod that keeps its PodGroup. The pod grouper of KAI creates one
// PodGroup for each other workload, and names it in the pods (KAI-Scheduler docs/developer/designs/external-podgroups).
const annotationSkipPodGrouper = "kai.scheduler/skip-podgrouper"

// fieldTopologyConstraint is the field of the PodGroup of KAI with its topology.
const fieldTopologyConstraint = "topologyConstraint"

// kai is the scheduler of KAI.
type kai struct{}

func (kai) Versions() []schema.GroupVersion {
	return []schema.GroupVersion{{Group: "scheduling.run.ai", Version: "v2alpha2"}}
}

func (kai) Requirement() string { return "the CustomResourceDefinitions of KAI" }

func (kai) PlanPods(p *plan.Plan, placement gang.Placement) {
	p.SchedulerName = placement.SchedulerName
	p.PodLabels = append(p.PodLabels,
		plan.Label{Name: gang.LabelKAIQueue, Value: placement.Queue, Policy: plan.Warn})
	p.PodAnnotations = append(p.PodAnnotations,
		plan.Label{Name: gang.AnnotationKAIGroup, Value: placement.PodGroup, Policy: plan.Warn},
		plan.Label{Name: annotationSkipPodGrouper, Value: "true", Policy: plan.Warn})
	if object := placement.Topology.Object; object != "" {
		p.PodAnnotations = append(p.PodAnnotations,
			plan.Label{Name: gang.AnnotationKAITopology, Value: object, Policy: plan.Warn})
	}
}

func (kai) ReadGroup(template *corev1.PodTemplateSpec) string {
	return template.Annotations[gang.AnnotationKAIGroup]
}

// BuildSpec sets the priority because KAI ignores those of the pods.
func (kai) BuildSpec(_ string, g Group) map[string]any {
	spec := map[string]any{"minMember": int64(g.MinCount), "queue": g.Queue}
	if g.Topology.Level != "" {
		mode := "requiredTopologyLevel"
		if g.Topology.Preferred {
			mode = "preferredTopologyLevel"
		}
		spec[fieldTopologyConstraint] = map[string]any{"topology": g.Topology.Object, mode: g.Topology.Level}
	}
	return setPriority(spec, g)
}

func (kai) TopologySupport() TopologySupport {
	return TopologySupport{Required: true, Preferred: true, Requirement: "KAI 0.15 or newer"}
}

func (kai) CanResize(string) bool { return true }

func (kai) ReservesWithoutPods() bool { return false }
