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

func (kai) Check(gang.Workload, gang.Gang) string { return "" }

func (kai) PlanPods(p *plan.Plan, g gang.Gang) {
	p.SchedulerName = g.Placement.SchedulerName
	p.PodLabels = append(p.PodLabels,
		plan.Label{Name: gang.LabelKAIQueue, Value: g.Placement.Queue, Policy: plan.Warn})
	p.PodAnnotations = append(p.PodAnnotations,
		plan.Label{Name: gang.AnnotationKAIGroup, Value: g.Placement.PodGroup, Policy: plan.Warn},
		plan.Label{Name: annotationSkipPodGrouper, Value: "true", Policy: plan.Warn})
	if object := g.Placement.Topology.Object; object != "" {
		p.PodAnnotations = append(p.PodAnnotations,
			plan.Label{Name: gang.AnnotationKAITopology, Value: object, Policy: plan.Warn})
	}
}

func (kai) ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement {
	return gang.Placement{
		PodGroup: template.Annotations[gang.AnnotationKAIGroup], Queue: template.Labels[gang.LabelKAIQueue],
		Topology: gang.Topology{Object: template.Annotations[gang.AnnotationKAITopology]},
	}
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
	return TopologySupport{
		Required: true, Preferred: true, Requirement: "KAI 0.15 or newer",
		ObjectProblem: "KAI finds the label in an object of the kind Topology; set the annotation " +
			gang.AnnotationKAITopology + " to its name",
	}
}

func (kai) CanResize(string) bool { return true }

func (kai) ReservesWithoutPods() bool { return false }
