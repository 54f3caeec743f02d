package scheduling

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// The annotations of pods with their topology (kueue apis/kueue/v1beta2, topology_types.go).
const (
	annotationKueueRequired     = "kueue.x-k8s.io/podset-required-topology"
	annotationKueuePreferred    = "kueue.x-k8s.io/podset-preferred-topology"
	annotationKueueSegment      = "kueue.x-k8s.io/podset-slice-required-topology"
	annotationKueueSegmentRanks = "kueue.x-k8s.io/podset-slice-size"
)

// TopologySupport is what a scheduler does with the topology of a PodGroup. The zero value is nothing.
type TopologySupport struct {
	// Required and Preferred are true if all pods must, or should, run in one part of the network.
	Required, Preferred bool
	// Requirement is what makes the API server keep the topology, as the rest of a sentence.
	Requirement string
	// ObjectProblem is why the scheduler needs the name of an object with the topology, and the fix, as a sentence
	// without a period; empty if it needs none.
	ObjectProblem string
}

// isPlacedByKueue reports whether Kueue chooses the nodes of a gang. If the gang has a scheduler that places it as
// one, that scheduler does.
func isPlacedByKueue(p gang.Placement) bool { return p.IsQueued && p.Scheduler == gang.SchedulerNone }

// CheckTopology returns the annotation that nothing in the placement of a workload can keep to, and the reason and the
// fix as a sentence without a period; empty if there is none.
func CheckTopology(w gang.Workload, p gang.Placement) (key, problem string) {
	if isPlacedByKueue(p) {
		return "", ""
	}
	if w.IsManagedExternally() {
		return checkExternalTopology(p)
	}
	if p.Segment.Level != "" {
		return gang.AnnotationSegment, "only Kueue places segments, if the gang is one Job with the label " +
			gang.LabelQueueName + " and the scheduler none; remove the annotation"
	}
	if p.Topology.Level == "" {
		return "", ""
	}
	var support TopologySupport
	if s := Find(p.Scheduler); s != nil {
		support = s.TopologySupport()
	}
	switch {
	case !support.Required:
		return gang.AnnotationTopology, fmt.Sprintf("the scheduler %s has no topology; set the annotation %s to native, "+
			"volcano or kai, or queue a gang of one Job with the label %s",
			p.Scheduler, gang.AnnotationScheduler, gang.LabelQueueName)
	case p.Topology.Preferred && !support.Preferred:
		return gang.AnnotationTopology, fmt.Sprintf("the scheduler %s cannot prefer a topology; set %q to require it, "+
			"or remove the annotation", p.Scheduler, p.Topology.Level)
	case support.ObjectProblem != "" && p.Topology.Object == "":
		return gang.AnnotationTopology, support.ObjectProblem
	}
	return "", ""
}

// checkExternalTopology is [CheckTopology] for a Job that another controller runs. Its pods can be in another cluster.
func checkExternalTopology(p gang.Placement) (key, problem string) {
	switch {
	case p.Segment.Level != "":
		key = gang.AnnotationSegment
	case p.Topology.Level != "":
		key = gang.AnnotationTopology
	default:
		return "", ""
	}
	return key, "spec.managedBy names another controller, and Rollcall does not choose the nodes of its pods; with " +
		"MultiKueue, the worker cluster chooses them; remove the annotation"
}

// PlanTopology adds the topology of a gang to a plan. Kueue reads it in the pods. For the PodGroup of another
// scheduler, the pod template keeps it, because the annotation of the workload can change while the gang runs.
func PlanTopology(p *plan.Plan, placement gang.Placement) {
	add := func(name, value string) {
		if value != "" {
			p.PodAnnotations = append(p.PodAnnotations, plan.Label{Name: name, Value: value, Policy: plan.Warn})
		}
	}
	topology, segment := placement.Topology, placement.Segment
	switch {
	case !isPlacedByKueue(placement):
		add(gang.AnnotationTopology, topology.String())
		return
	case topology.Preferred:
		add(annotationKueuePreferred, topology.Level)
	default:
		add(annotationKueueRequired, topology.Level)
	}
	if segment.Level != "" {
		add(annotationKueueSegment, segment.Level)
		add(annotationKueueSegmentRanks, strconv.Itoa(int(segment.Ranks)))
	}
}

// topologyFields are the fields of PodGroups with the topology.
var topologyFields = []string{fieldConstraints, fieldNetworkTopology, fieldTopologyConstraint}

// RemoveTopology removes the topology from a PodGroup with the changes of an existing one, whose topology is immutable.
func RemoveTopology(podGroup *unstructured.Unstructured) {
	for _, name := range topologyFields {
		unstructured.RemoveNestedField(podGroup.Object, "spec", name)
	}
}

// KeepsTopology reports whether an API server that answered with a PodGroup has kept the topology that was requested.
// It drops fields of features that are off, and fields that an older CustomResourceDefinition does not have.
func KeepsTopology(requested, answered *unstructured.Unstructured) bool {
	for _, name := range topologyFields {
		want, isRequested, _ := unstructured.NestedMap(requested.Object, "spec", name)
		got, _, _ := unstructured.NestedMap(answered.Object, "spec", name)
		if isRequested && !equality.Semantic.DeepEqual(want, got) {
			return false
		}
	}
	return true
}
