package controller

import (
	"math"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// compactPod is a trimmed pod in the cache, in a third of the memory of a corev1.Pod. The informer stores
// and indexes it as a client.Object. A reader of the cache gets a deep copy, which is a corev1.Pod. A reader
// that disables the deep copy gets an error. A compactPod is never changed. See
// docs/adr/0014-cost.md.
type compactPod struct {
	// ObjectMeta has neither labels nor owners. The methods of the pod return both.
	metav1.ObjectMeta

	// labels contains the values of cachedLabels; empty without a label.
	labels [len(cachedLabels)]string
	// owner is the controller of the pod; the zero value without a controller.
	owner    unique.Handle[metav1.OwnerReference]
	nodeName string
	// readyTime is when the pod became ready. It is read only without details.
	readyTime metav1.Time
	// details are nil if the status is newReadyStatus(readyTime).
	details *podDetails
}

// podDetails are fields that few pods need.
type podDetails struct {
	schedulingGates []corev1.PodSchedulingGate
	readinessGates  []corev1.PodReadinessGate
	status          corev1.PodStatus
}

var _ client.Object = (*compactPod)(nil)

// CompactPod is a transform function of the cache. It replaces a pod by a compact one with the fields that
// the reconciler reads, see [trimPod]. It does not change its argument. Objects of other types are returned
// unchanged.
func CompactPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone, or a compact pod of an earlier list
	}
	return newCompactPod(trimPod(pod)), nil
}

// newCompactPod returns the compact form of a trimmed pod. Texts that many pods have in common share their
// memory.
func newCompactPod(trimmed *corev1.Pod) *compactPod {
	out := &compactPod{
		ObjectMeta: trimmed.ObjectMeta,
		owner:      unique.Make(controllerOf(trimmed)),
		nodeName:   intern(trimmed.Spec.NodeName),
	}
	out.Namespace, out.Labels, out.OwnerReferences = intern(trimmed.Namespace), nil, nil
	for i, key := range cachedLabels {
		out.labels[i] = intern(trimmed.Labels[key])
	}
	for _, c := range trimmed.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.readyTime = c.LastTransitionTime
		}
	}
	if len(trimmed.Spec.SchedulingGates) > 0 || len(trimmed.Spec.ReadinessGates) > 0 ||
		!equality.Semantic.DeepEqual(trimmed.Status, newReadyStatus(out.readyTime)) {
		out.details = &podDetails{trimmed.Spec.SchedulingGates, trimmed.Spec.ReadinessGates, trimmed.Status}
		out.details.limitMemory()
	}
	return out
}

// limitMemory removes the container statuses and shortens the texts of a status that needs more than
// gang.MaxCachedBytes. The containers of the largest pod of a gang need less.
func (d *podDetails) limitMemory() {
	if gang.MeasureMemory(d, math.MaxInt) <= gang.MaxCachedBytes {
		return
	}
	shorten := func(text *string) { *text = strings.Clone(gang.ShortenText(*text)) }
	status := &d.status
	status.ContainerStatuses, status.InitContainerStatuses = nil, nil
	shorten(&status.Reason)
	shorten(&status.Message)
	for i := range status.Conditions { // of four types
		shorten(&status.Conditions[i].Reason)
		shorten(&status.Conditions[i].Message)
	}
}

// controllerOf returns the owner of a trimmed pod, which has at most one; the zero value without an owner.
func controllerOf(trimmed *corev1.Pod) metav1.OwnerReference {
	if len(trimmed.OwnerReferences) == 0 {
		return metav1.OwnerReference{}
	}
	return trimmed.OwnerReferences[0]
}

// newReadyStatus returns the status of a trimmed pod that is ready.
func newReadyStatus(readyTime metav1.Time) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: readyTime,
		}},
	}
}

// GetLabels returns a new map with the labels of the pod.
func (p *compactPod) GetLabels() map[string]string {
	out := map[string]string{}
	for i, key := range cachedLabels {
		if p.labels[i] != "" {
			out[key] = p.labels[i]
		}
	}
	return out
}

// GetOwnerReferences returns a new list with the controller of the pod; nil without a controller.
func (p *compactPod) GetOwnerReferences() []metav1.OwnerReference {
	owner := p.owner.Value()
	if owner.Controller == nil {
		return nil
	}
	return []metav1.OwnerReference{owner}
}

// GetObjectKind returns the empty kind, as for other objects of the cache.
func (p *compactPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the pod as a corev1.Pod.
func (p *compactPod) DeepCopyObject() runtime.Object {
	out := &corev1.Pod{Spec: corev1.PodSpec{NodeName: p.nodeName}}
	p.DeepCopyInto(&out.ObjectMeta)
	out.Labels, out.OwnerReferences = p.GetLabels(), p.GetOwnerReferences()
	if p.details == nil {
		out.Status = newReadyStatus(p.readyTime)
		return out
	}
	p.details.status.DeepCopyInto(&out.Status)
	out.Spec.SchedulingGates = append(out.Spec.SchedulingGates, p.details.schedulingGates...)
	out.Spec.ReadinessGates = append(out.Spec.ReadinessGates, p.details.readinessGates...)
	return out
}
