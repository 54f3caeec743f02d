package kueue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
)

// Kind and Resource identify Workloads.
const (
	Kind     = "Workload"
	Resource = "workloads"
)

// Version is the API version of all objects of Kueue: since Kueue 0.15.
var Version = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// LabelPriorityClass is the label of a workload with the name of its WorkloadPriorityClass (kueue
// pkg/controller/constants).
const LabelPriorityClass = "kueue.x-k8s.io/priority-class"

// annotationDigest identifies the pod sets of a Workload.
const annotationDigest = gang.Prefix + "pod-sets"

// PodSet are the pods of one workload of the gang.
type PodSet struct {
	// Name is the role of the workload.
	Name  string
	Count int32
	// Template is the pod template of the workload.
	Template corev1.PodTemplateSpec
}

// Priority is the priority of a Workload and the class that contains it.
type Priority struct {
	Group, Kind, Name string
	Value             int32
}

// Spec is the content of a Workload.
type Spec struct {
	Namespace, Name, Queue string
	PodSets                []PodSet
	// Priority is nil without a class.
	Priority *Priority
}

// Build returns a Workload without labels and owners.
func Build(s Spec) (*unstructured.Unstructured, error) {
	var sets []any
	for _, set := range s.PodSets {
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&set.Template.Spec)
		if err != nil {
			return nil, fmt.Errorf("converting the pod template of %s: %w", set.Name, err)
		}
		template := map[string]any{"metadata": map[string]any{}, "spec": spec}
		sets = append(sets, map[string]any{"name": set.Name, "count": int64(set.Count), "template": template})
	}
	spec := map[string]any{"queueName": s.Queue, "podSets": sets}
	if p := s.Priority; p != nil {
		spec["priority"] = int64(p.Value)
		spec["priorityClassRef"] = map[string]any{"group": p.Group, "kind": p.Kind, "name": p.Name}
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetGroupVersionKind(Version.WithKind(Kind))
	out.SetNamespace(s.Namespace)
	out.SetName(s.Name)
	out.SetAnnotations(map[string]string{annotationDigest: Digest(s.PodSets)})
	return out, nil
}

// Digest identifies the sizes of pod sets and what their pods request. The other fields of the templates do not
// count: an update of Rollcall may inject other variables.
func Digest(sets []PodSet) string {
	type request struct {
		Name       string
		Count      int32
		Containers []corev1.ResourceRequirements
	}
	var requests []request
	for _, set := range sets {
		r := request{Name: set.Name, Count: set.Count}
		for _, containers := range [][]corev1.Container{set.Template.Spec.InitContainers, set.Template.Spec.Containers} {
			for i := range containers {
				r.Containers = append(r.Containers, containers[i].Resources)
			}
		}
		requests = append(requests, r)
	}
	text, err := json.Marshal(requests)
	if err != nil { // a quantity that was decoded can be encoded
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// IsFor reports whether a Workload was built for pod sets with a digest and a queue.
func IsFor(w *unstructured.Unstructured, digest, queue string) bool {
	name, _, _ := unstructured.NestedString(w.Object, "spec", "queueName")
	return w.GetAnnotations()[annotationDigest] == digest && name == queue
}

// Trim removes from a Workload what Rollcall does not read until the gang starts.
func Trim(w *unstructured.Unstructured) {
	w.SetManagedFields(nil)
	unstructured.RemoveNestedField(w.Object, "spec", "podSets")
}
