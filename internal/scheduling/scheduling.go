package scheduling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Kind and Resource identify the PodGroups of all schedulers, in the API group of each.
const (
	Kind     = "PodGroup"
	Resource = "podgroups"
)

// Scheduler is what a gang needs from a scheduler. Implementations have no state.
type Scheduler interface {
	// Versions returns the supported versions of the PodGroup in the order of preference. All of them have the
	// same API group. A scheduler without PodGroups has none.
	Versions() []schema.GroupVersion
	// Requirement returns what makes an API server serve the versions, as the rest of a sentence.
	Requirement() string
	// Check returns why the scheduler cannot place a workload of a gang, and the fix as a sentence without a period;
	// empty if it can.
	Check(w gang.Workload, g gang.Gang) string
	// PlanPods adds to a plan what the pods of a gang need.
	PlanPods(p *plan.Plan, g gang.Gang)
	// ReadPlacement returns what the scheduler finds in a pod template: the PodGroup, which is empty if there is none, the
	// queue, and the object of the topology.
	ReadPlacement(template *corev1.PodTemplateSpec) gang.Placement
	// BuildSpec returns the spec of a PodGroup in a version.
	BuildSpec(version string, g Group) map[string]any
	// CanResize reports whether the number of ranks in a PodGroup of a version can change.
	CanResize(version string) bool
	// TopologySupport returns what the scheduler does with the topology of a PodGroup.
	TopologySupport() TopologySupport
	// ReservesWithoutPods reports whether a PodGroup without pods keeps resources from others. The PodGroup is then
	// deleted while the gang is suspended, and after it finished.
	ReservesWithoutPods() bool
}

// schedulers contains all schedulers except [gang.SchedulerNone].
var schedulers = map[gang.Scheduler]Scheduler{
	gang.SchedulerNative:       native{},
	gang.SchedulerCoscheduling: coscheduling{},
	gang.SchedulerVolcano:      volcano{},
	gang.SchedulerKAI:          kai{},
	gang.SchedulerYuniKorn:     yuniKorn{},
}

// Find returns the scheduler with a name; nil for [gang.SchedulerNone] and for unknown names.
func Find(name gang.Scheduler) Scheduler { return schedulers[name] }

// HasPodGroups reports whether gangs of a scheduler have a PodGroup.
func HasPodGroups(name gang.Scheduler) bool {
	s := Find(name)
	return s != nil && len(s.Versions()) > 0
}

// DescribeMissing returns that the API server serves no version of the PodGroups of a scheduler, as a sentence
// without a period that starts in lower case.
func DescribeMissing(s Scheduler) string {
	return fmt.Sprintf("the API server does not serve %s.%s, which requires %s",
		Resource, s.Versions()[0].Group, s.Requirement())
}

// Group is the content of a PodGroup.
type Group struct {
	Namespace, Name string
	// MinCount is the number of pods that get their nodes together, at least 1.
	MinCount int32
	// PriorityClass is the PriorityClass of the pods; empty without a class.
	PriorityClass string
	// Queue is the queue of the scheduler; empty if it has none.
	Queue string
	// Topology is where the pods run.
	Topology gang.Topology
}

// BuildPodGroup returns a PodGroup in a version without labels and owners.
func BuildPodGroup(s Scheduler, version schema.GroupVersion, g Group) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": s.BuildSpec(version.Version, g)}}
	out.SetGroupVersionKind(version.WithKind(Kind))
	out.SetNamespace(g.Namespace)
	out.SetName(g.Name)
	return out
}

// FindPlacement returns the placement of an injected workload by its pod template. The annotation may have changed
// since the admission, and the template of a Job is immutable. The PodGroup is that of the template.
func FindPlacement(template *corev1.PodTemplateSpec, g gang.Gang) gang.Placement {
	out := g.Placement
	if out.Scheduler == gang.SchedulerNone {
		return out
	}
	for _, name := range append([]gang.Scheduler{out.Scheduler}, gang.Schedulers()...) {
		s := Find(name)
		if s == nil {
			continue
		}
		if found := s.ReadPlacement(template); found.PodGroup != "" {
			out.Scheduler, out.PodGroup, out.Queue = name, found.PodGroup, found.Queue
			out.Topology, _ = gang.ParseTopology(template.Annotations[gang.AnnotationTopology])
			out.Topology.Object = found.Topology.Object
			return out
		}
	}
	out.Scheduler, out.PodGroup = gang.SchedulerNone, ""
	return out
}

// setPriority adds a PriorityClass to the spec of a PodGroup.
func setPriority(spec map[string]any, g Group) map[string]any {
	if g.PriorityClass != "" {
		spec["priorityClassName"] = g.PriorityClass
	}
	return spec
}
