package kueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrUnsupported means that an admission has a part that Rollcall does not apply. The gang must not start.
var ErrUnsupported = errors.New("unsupported by Rollcall for gangs of several workloads")

// Nodes are the fields of a pod template that select the nodes of an admitted workload.
type Nodes struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// admission contains the fields of a Workload that determine the nodes of its pods.
type admission struct {
	Spec struct {
		PodSets []struct {
			Name     string                 `json:"name"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Admission struct {
			PodSetAssignments []struct {
				Name               string            `json:"name"`
				Flavors            map[string]string `json:"flavors"`
				TopologyAssignment map[string]any    `json:"topologyAssignment"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		AdmissionChecks []struct {
			Name          string `json:"name"`
			PodSetUpdates []any  `json:"podSetUpdates"`
		} `json:"admissionChecks"`
	} `json:"status"`
}

// FindNodes returns what selects the nodes of each pod set of an admitted Workload: the template with which it was
// created, and the flavors. findFlavor returns what a ResourceFlavor requires. An error is [ErrUnsupported] or one of
// findFlavor.
func FindNodes(w *unstructured.Unstructured, findFlavor func(string) (Nodes, error)) (map[string]Nodes, error) {
	var a admission
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object, &a); err != nil {
		return nil, fmt.Errorf("reading the admission of the Workload %s: %w", w.GetName(), err)
	}
	for _, check := range a.Status.AdmissionChecks {
		if len(check.PodSetUpdates) > 0 {
			return nil, fmt.Errorf("the admission check %s changes pods, which is %w", check.Name, ErrUnsupported)
		}
	}
	out, flavors := map[string]Nodes{}, map[string]Nodes{}
	for _, set := range a.Spec.PodSets {
		out[set.Name] = Nodes{NodeSelector: set.Template.Spec.NodeSelector, Tolerations: set.Template.Spec.Tolerations}
	}
	for _, assignment := range a.Status.Admission.PodSetAssignments {
		if len(assignment.TopologyAssignment) > 0 {
			return nil, fmt.Errorf("topology-aware scheduling is %w", ErrUnsupported)
		}
		nodes := Nodes{NodeSelector: map[string]string{}, Tolerations: out[assignment.Name].Tolerations}
		maps.Copy(nodes.NodeSelector, out[assignment.Name].NodeSelector)
		for _, flavor := range slices.Compact(slices.Sorted(maps.Values(assignment.Flavors))) {
			required, isKnown := flavors[flavor]
			if !isKnown {
				var err error
				if required, err = findFlavor(flavor); err != nil {
					return nil, err
				}
				flavors[flavor] = required
			}
			maps.Copy(nodes.NodeSelector, required.NodeSelector)
			nodes.Tolerations = slices.Concat(nodes.Tolerations, required.Tolerations)
		}
		out[assignment.Name] = nodes
	}
	return out, nil
}

// ReadFlavor returns what a ResourceFlavor requires.
func ReadFlavor(flavor *unstructured.Unstructured) (Nodes, error) {
	var f struct {
		Spec struct {
			NodeLabels  map[string]string   `json:"nodeLabels"`
			Tolerations []corev1.Toleration `json:"tolerations"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(flavor.Object, &f); err != nil {
		return Nodes{}, fmt.Errorf("reading the ResourceFlavor %s: %w", flavor.GetName(), err)
	}
	return Nodes{NodeSelector: f.Spec.NodeLabels, Tolerations: f.Spec.Tolerations}, nil
}
