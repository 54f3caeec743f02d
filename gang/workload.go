package gang

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Kind is the kind of a workload that can be a gang.
type Kind string

// The supported kinds.
const (
	Job         Kind = "Job"
	StatefulSet Kind = "StatefulSet"
)

// ObjectName returns the kind and a name as kubectl prints them, without the group: job/train.
func (k Kind) ObjectName(name string) string { return strings.ToLower(string(k)) + "/" + name }

// Workload is a view of a Job or a StatefulSet. It does not copy the object: changes through the view
// change the object. Exactly one field is set.
type Workload struct {
	// Job is set when the workload is a Job.
	Job *batchv1.Job
	// StatefulSet is set when the workload is a StatefulSet.
	StatefulSet *appsv1.StatefulSet
}

// NewWorkload returns a view of a new, empty object of the given kind; false for an unsupported kind.
func NewWorkload(kind Kind) (Workload, bool) {
	switch kind {
	case Job:
		return Workload{Job: &batchv1.Job{}}, true
	case StatefulSet:
		return Workload{StatefulSet: &appsv1.StatefulSet{}}, true
	default:
		return Workload{}, false
	}
}

// WorkloadOf returns a view of obj. It returns an error for every type other than *batchv1.Job and
// *appsv1.StatefulSet.
func WorkloadOf(obj runtime.Object) (Workload, error) {
	switch o := obj.(type) {
	case *batchv1.Job:
		return Workload{Job: o}, nil
	case *appsv1.StatefulSet:
		return Workload{StatefulSet: o}, nil
	default:
		return Workload{}, fmt.Errorf(
			"converting %T to a workload: only batch/v1 Job and apps/v1 StatefulSet can be a gang", obj)
	}
}

// Kind returns the kind of the workload.
func (w Workload) Kind() Kind {
	if w.Job != nil {
		return Job
	}
	return StatefulSet
}

// GroupKind returns the API group and kind, for API errors and owner references.
func (w Workload) GroupKind() schema.GroupKind {
	if w.Job != nil {
		return schema.GroupKind{Group: batchv1.GroupName, Kind: string(Job)}
	}
	return schema.GroupKind{Group: appsv1.GroupName, Kind: string(StatefulSet)}
}

// Meta returns the workload's own metadata.
func (w Workload) Meta() *metav1.ObjectMeta {
	if w.Job != nil {
		return &w.Job.ObjectMeta
	}
	return &w.StatefulSet.ObjectMeta
}

// Template returns the template of the workload's pods.
func (w Workload) Template() *corev1.PodTemplateSpec {
	if w.Job != nil {
		return &w.Job.Spec.Template
	}
	return &w.StatefulSet.Spec.Template
}

// IndexLabel returns the pod label with the index of a pod. The controller of the workload sets it:
// the completion index of an Indexed Job, or the ordinal of a StatefulSet (both KEP-4017, GA in
// 1.32). The variable JOB_COMPLETION_INDEX is not an alternative: the Job controller appends it to
// the template's env, too late for $(…) expansion.
func (w Workload) IndexLabel() string {
	if w.Job != nil {
		return batchv1.JobCompletionIndexAnnotation
	}
	return appsv1.PodIndexLabel
}

// HasFrameworkLabel reports whether the workload opted in by [LabelFramework] with any value.
func (w Workload) HasFrameworkLabel() bool {
	_, ok := w.Meta().Labels[LabelFramework]
	return ok
}

// IsInjected reports whether admission injected the workload: it has [AnnotationInjected] with any value.
// A label that is added to an existing Job injects nothing. A copy of an injected object has the annotation
// before its own admission.
func (w Workload) IsInjected() bool {
	_, ok := w.Meta().Annotations[AnnotationInjected]
	return ok
}

// OptedOut reports whether [LabelInject] turns Rollcall off for the workload.
func (w Workload) OptedOut() bool { return w.Meta().Labels[LabelInject] == "false" }

// Ranks returns the desired number of pods: parallelism or replicas, 1 if absent.
func (w Workload) Ranks() int32 {
	if w.Job != nil {
		return ptr.Deref(w.Job.Spec.Parallelism, 1)
	}
	return ptr.Deref(w.StatefulSet.Spec.Replicas, 1)
}

// IsSuspended reports whether the spec suspends the workload: a Job by spec.suspend, a StatefulSet by
// replicas 0.
func (w Workload) IsSuspended() bool {
	if w.Job != nil {
		return ptr.Deref(w.Job.Spec.Suspend, false)
	}
	return w.Ranks() == 0
}

// managerMultiKueue is the controller of a Job that Kueue runs in another cluster (kueue
// apis/kueue/v1beta2, MultiKueueControllerName).
const managerMultiKueue = "kueue.x-k8s.io/multikueue"

// IsManagedExternally reports whether the workload is a Job that another controller than the Job
// controller runs, such as MultiKueue in another cluster (KEP-4368). Rollcall only observes such a
// Job: the other controller suspends and finishes it, and its pods can be in another cluster.
func (w Workload) IsManagedExternally() bool {
	return w.Job != nil && ptr.Deref(w.Job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

// IsCopiedByKueue reports whether the workload is a Job that MultiKueue copies to another cluster, in which
// Rollcall manages the copy.
func (w Workload) IsCopiedByKueue() bool {
	return w.Job != nil && ptr.Deref(w.Job.Spec.ManagedBy, "") == managerMultiKueue
}

// Object returns the Job or StatefulSet itself.
func (w Workload) Object() runtime.Object {
	if w.Job != nil {
		return w.Job
	}
	return w.StatefulSet
}

// DeepCopy returns a view of a copy of the object.
func (w Workload) DeepCopy() Workload {
	return Workload{Job: w.Job.DeepCopy(), StatefulSet: w.StatefulSet.DeepCopy()}
}

// ServiceName returns the name of the Service of an injected workload.
func (w Workload) ServiceName() string {
	if w.StatefulSet != nil {
		return w.StatefulSet.Spec.ServiceName
	}
	return w.Template().Spec.Subdomain
}

// Equal reports whether two workloads are semantically equal.
func (w Workload) Equal(o Workload) bool {
	return equality.Semantic.DeepEqual(w.Object(), o.Object())
}

// ReplaceWith overwrites the object with the object of o, which must have the same kind.
func (w Workload) ReplaceWith(o Workload) {
	if w.Job != nil {
		*w.Job = *o.Job
		return
	}
	*w.StatefulSet = *o.StatefulSet
}

// AnnotationVolcanoGroup is Volcano's annotation of a pod with the name of its PodGroup (volcano.sh/apis
// pkg/apis/scheduling/v1beta1, KubeGroupNameAnnotationKey).
const AnnotationVolcanoGroup = "scheduling.k8s.io/group-name"

// LabelQueueName is Kueue's label with the name of a workload's queue (kueue
// pkg/controller/constants). Kueue suspends and resumes the workload.
const LabelQueueName = "kueue.x-k8s.io/queue-name"

// LabelMaxExecutionTime is Kueue's label with the maximum execution time of a Job in seconds (kueue
// pkg/controller/constants). A Job with another value than its Workload gets a new Workload.
const LabelMaxExecutionTime = "kueue.x-k8s.io/max-exec-time-seconds"

// LabelPrebuiltWorkload is Kueue's label, or its annotation, with the name of a Workload that Kueue did not create for
// the Job, such as that of a copy of MultiKueue (kueue pkg/controller/constants).
const LabelPrebuiltWorkload = "kueue.x-k8s.io/prebuilt-workload-name"

// QueueName returns the queue of a Job; empty without a queue. It is always empty for a StatefulSet:
// Kueue queues the pods of a StatefulSet individually and does not suspend the workload.
func (w Workload) QueueName() string {
	if w.Job == nil {
		return ""
	}
	return w.Job.Labels[LabelQueueName]
}
