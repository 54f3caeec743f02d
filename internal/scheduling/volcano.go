package scheduling

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// fieldNetworkTopology is the field of the PodGroup of Volcano with its topology.
const fieldNetworkTopology = "networkTopology"

// volcano is the scheduler of Volcano. Its controller creates no PodGroup for pods that name one (volcano
// pkg/controllers/podgroup).
type volcano struct{}

func (volcano) Versions() []schema.GroupVersion {
	return []schema.GroupVersion{{Group: "scheduling.volcano.sh", Version: "v1beta1"}}
}

func (volcano) Requirement() string { return "the CustomResourceDefinitions of Volcano" }

func (volcano) Check(gang.Workload, gang.Gang) string { return "" }

func (volcano) PlanPods(p *plan.Plan, g gang.Gang) {
	p.SchedulerName = g.Placement.SchedulerName
	p.PodAnnotations = append(p.PodAnnotations,
		plan.Label{Name: gang.AnnotationVolcanoGroup, Value: g.Placement.PodGroup, Policy: plan.Warn})
}

func (volcano) ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement {
	return gang.Placement{PodGroup: template.Annotations[gang.AnnotationVolcanoGroup]}
}

func (volcano) BuildSpec(_ string, g Group) map[string]any {
	spec := map[string]any{"minMember": int64(g.MinCount)}
	if level := g.Topology.Level; level != "" {
		topology := map[string]any{"mode": "hard"}
		if g.Topology.Preferred {
			topology["mode"] = "soft"
		}
		if tier, err := strconv.ParseInt(level, 10, 32); err == nil {
			topology["highestTierAllowed"] = tier
		} else {
			topology["highestTierName"] = level
		}
		spec[fieldNetworkTopology] = topology
	}
	return setPriority(spec, g)
}

// TopologySupport is that of tiers of HyperNodes. The controller of Volcano names a tier after the label of nodes by
// which it discovers them (volcano pkg/controllers/hypernode/discovery/label). A number is the number of a tier.
func (volcano) TopologySupport() TopologySupport {
	return TopologySupport{Required: true, Preferred: true, Requirement: "Volcano 1.14 or newer"}
}

func (volcano) CanResize(string) bool { return true }

// ReservesWithoutPods is true because a PodGroup in the phase Inqueue keeps its share of the queue (volcano
// pkg/scheduler/framework, getPodGroupPhase).
func (volcano) ReservesWithoutPods() bool { return true }
