package kueue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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

// annotationPodSets contains a digest of each pod set in a Workload that was trimmed. The API server rejects the key.
const annotationPodSets = gang.Prefix + "pod sets"

// PodSet are the pods of one workload of the gang.
type PodSet struct {
	// Name is the role of the workload.
	Name  string `json:"name"`
	Count int32  `json:"count"`
	// Template is the pod template of the workload.
	Template corev1.PodTemplateSpec `json:"template"`
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
	return out, nil
}

// digest identifies the role, the size and the requests of the pods. The other fields of the template do not count: an
// update of Rollcall may inject other variables.
func (s PodSet) digest() string {
	type container struct {
		Resources     corev1.ResourceRequirements
		RestartPolicy *corev1.ContainerRestartPolicy
	}
	spec := &s.Template.Spec
	request := struct {
		Count                      int32
		Pod                        *corev1.ResourceRequirements
		InitContainers, Containers []container
	}{Count: s.Count, Pod: spec.Resources}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		request.InitContainers = append(request.InitContainers, container{c.Resources, c.RestartPolicy})
	}
	for i := range spec.Containers {
		request.Containers = append(request.Containers, container{Resources: spec.Containers[i].Resources})
	}
	text, err := json.Marshal(request)
	if err != nil { // a quantity that was decoded can be encoded
		return ""
	}
	sum := sha256.Sum256(text)
	return s.Name + "=" + hex.EncodeToString(sum[:8])
}

// IsFor reports whether a Workload that was trimmed requests what pod sets need in a queue, and has at most a number of
// pod sets. It can contain those of completed workloads that were deleted.
func IsFor(w *unstructured.Unstructured, sets []PodSet, maxSets int, queue string) bool {
	name, _, _ := unstructured.NestedString(w.Object, "spec", "queueName")
	have := strings.Fields(w.GetAnnotations()[annotationPodSets])
	isMissing := func(s PodSet) bool { return !slices.Contains(have, s.digest()) }
	return name == queue && len(have) <= maxSets && !slices.ContainsFunc(sets, isMissing)
}

// Trim replaces the pod sets of a Workload by their digests, and removes what Rollcall does not read. It changes a
// Workload once.
func Trim(w *unstructured.Unstructured) {
	annotations := w.GetAnnotations()
	if _, isTrimmed := annotations[annotationPodSets]; isTrimmed {
		return
	}
	var spec struct {
		PodSets []PodSet `json:"podSets"`
	}
	var digests []string
	raw, _, _ := unstructured.NestedMap(w.Object, "spec")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec) == nil { // else somebody else wrote it
		for _, set := range spec.PodSets {
			digests = append(digests, set.digest())
		}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationPodSets] = strings.Join(digests, " ")
	w.SetAnnotations(annotations)
	w.SetManagedFields(nil)
	unstructured.RemoveNestedField(w.Object, "spec", "podSets")
}
