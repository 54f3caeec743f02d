package kueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
)

// ErrUnsupported means that an admission has a part that Rollcall does not apply. The gang must not start.
var ErrUnsupported = errors.New("unsupported by Rollcall for gangs of several workloads")

// admission contains the fields of a Workload that determine the nodes of its pods.
type admission struct {
	Admission struct {
		PodSetAssignments []struct {
			Name               string            `json:"name"`
			Count              *int32            `json:"count"`
			Flavors            map[string]string `json:"flavors"`
			TopologyAssignment map[string]any    `json:"topologyAssignment"`
		} `json:"podSetAssignments"`
	} `json:"admission"`
	AdmissionChecks []struct {
		Name          string `json:"name"`
		PodSetUpdates []any  `json:"podSetUpdates"`
	} `json:"admissionChecks"`
}

// FindNodes returns what the flavors of an admitted Workload require of the nodes of each pod set. sets are those that
// must be admitted. findFlavor returns what a ResourceFlavor requires. An error is [ErrUnsupported] or one of
// findFlavor.
func FindNodes(
	w *unstructured.Unstructured, sets []PodSet, findFlavor func(string) (gang.QueueNodes, error),
) (map[string]gang.QueueNodes, error) {
	var a admission
	if err := readStatus(w, &a); err != nil {
		return nil, err
	}
	for _, check := range a.AdmissionChecks {
		if len(check.PodSetUpdates) > 0 {
			return nil, fmt.Errorf("the admission check %s changes pods, which is %w", check.Name, ErrUnsupported)
		}
	}
	out := map[string]gang.QueueNodes{}
	for _, assignment := range a.Admission.PodSetAssignments {
		i := slices.IndexFunc(sets, func(s PodSet) bool { return s.Name == assignment.Name })
		switch {
		case i < 0:
			continue // completed and deleted
		case len(assignment.TopologyAssignment) > 0:
			return nil, fmt.Errorf("topology-aware scheduling is %w", ErrUnsupported)
		case assignment.Count != nil && *assignment.Count != sets[i].Count:
			return nil, fmt.Errorf("partial admission is %w", ErrUnsupported)
		}
		nodes := gang.QueueNodes{NodeSelector: map[string]string{}}
		for _, flavor := range slices.Compact(slices.Sorted(maps.Values(assignment.Flavors))) {
			required, err := findFlavor(flavor)
			if err != nil {
				return nil, err
			}
			maps.Copy(nodes.NodeSelector, required.NodeSelector)
			nodes.Tolerations = slices.Concat(nodes.Tolerations, required.Tolerations)
		}
		out[assignment.Name] = nodes
	}
	for _, set := range sets {
		if _, isAssigned := out[set.Name]; !isAssigned {
			return nil, fmt.Errorf("an admission without the pod set %s is %w", set.Name, ErrUnsupported)
		}
	}
	return out, nil
}

// ReadFlavor returns what a ResourceFlavor requires.
func ReadFlavor(flavor *unstructured.Unstructured) (gang.QueueNodes, error) {
	var f struct {
		Spec struct {
			NodeLabels  map[string]string   `json:"nodeLabels"`
			Tolerations []corev1.Toleration `json:"tolerations"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(flavor.Object, &f); err != nil {
		return gang.QueueNodes{}, fmt.Errorf("reading the ResourceFlavor %s: %w", flavor.GetName(), err)
	}
	return gang.QueueNodes{NodeSelector: f.Spec.NodeLabels, Tolerations: f.Spec.Tolerations}, nil
}
