package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// The versions of the PodGroup of Kubernetes. The field of the pods is the same in both (KEP-4671).
const (
	nativeBeta  = "v1beta1"  // Kubernetes 1.37
	nativeAlpha = "v1alpha2" // Kubernetes 1.36
)

// fieldConstraints is the field of the PodGroup of Kubernetes with its topology.
const fieldConstraints = "schedulingConstraints"

// native is kube-scheduler with the feature gate GenericWorkload, in 1.36 also GangScheduling. A PodGroup needs no
// Workload of Kubernetes (kubernetes pkg/scheduler/framework/plugins/gangscheduling).
type native struct{}

func (native) Versions() []schema.GroupVersion {
	const group = "scheduling.k8s.io"
	return []schema.GroupVersion{{Group: group, Version: nativeBeta}, {Group: group, Version: nativeAlpha}}
}

func (native) Requirement() string {
	return "the feature gate GenericWorkload and --runtime-config=scheduling.k8s.io/v1beta1=true " +
		"(Kubernetes 1.36: v1alpha2, and the gate GangScheduling)"
}

func (native) Check(gang.Workload, gang.Gang) string { return "" }

func (native) PlanPods(p *plan.Plan, g gang.Gang) {
	p.SchedulingGroup = g.Placement.PodGroup
}

func (native) ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement {
	group := template.Spec.SchedulingGroup
	if group == nil || group.PodGroupName == nil {
		return gang.Placement{}
	}
	return gang.Placement{PodGroup: *group.PodGroupName}
}

// BuildSpec sets the disruption mode so that kube-scheduler preempts the gang as one.
func (native) BuildSpec(version string, g Group) map[string]any {
	spec := map[string]any{
		"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(g.MinCount)}},
		"disruptionMode":   map[string]any{"all": map[string]any{}},
	}
	if version == nativeAlpha {
		spec["disruptionMode"] = Kind
	}
	if g.Topology.Level != "" {
		constraint := map[string]any{"key": g.Topology.Level}
		spec[fieldConstraints] = map[string]any{"topology": []any{constraint}}
	}
	return setPriority(spec, g)
}

// TopologySupport is that of an alpha feature (KEP-5732), whose field the API server drops without the gate.
func (native) TopologySupport() TopologySupport {
	return TopologySupport{Required: true,
		Requirement: "the feature gate TopologyAwareWorkloadScheduling of the API server and the scheduler"}
}

func (native) CanResize(version string) bool { return version != nativeAlpha }

func (native) ReservesWithoutPods() bool { return false }
