package gang

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Kind is the kind of a workload that can become a gang.
type Kind string

// The workload kinds that Rollcall understands.
const (
	Job         Kind = "Job"
	StatefulSet Kind = "StatefulSet"
)

// Workload is one view over the kinds that can carry a gang. It holds pointers
// into the object it was made from: what is changed through it is changed there.
type Workload struct {
	// Job is set when the workload is a Job.
	Job *batchv1.Job
	// StatefulSet is set when the workload is a StatefulSet.
	StatefulSet *appsv1.StatefulSet
}

// NewWorkload returns a view over a new, empty object of the given kind; false for a
// kind that cannot be a gang.
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

// WorkloadOf views obj as a Workload. It returns an error for every type other
// than *batchv1.Job and *appsv1.StatefulSet.
func WorkloadOf(obj runtime.Object) (Workload, error) {
	switch o := obj.(type) {
	case *batchv1.Job:
		return Workload{Job: o}, nil
	case *appsv1.StatefulSet:
		return Workload{StatefulSet: o}, nil
	default:
		return Workload{}, fmt.Errorf("viewing %T as a workload: only batch/v1 Job and apps/v1 StatefulSet can be a gang", obj)
	}
}

// Kind returns the workload's kind.
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

// IndexLabel is the pod label from which a rank learns its index. Both labels
// are GA and set by the workload's own controller: the completion index of an
// Indexed Job (KEP-4017, GA in 1.32) and the ordinal of a StatefulSet (KEP-4017's
// sibling, GA in 1.32). The variable JOB_COMPLETION_INDEX cannot serve: the Job
// controller appends it after the template's env, too late for $(…) expansion.
func (w Workload) IndexLabel() string {
	if w.Job != nil {
		return batchv1.JobCompletionIndexAnnotation
	}
	return appsv1.PodIndexLabel
}

// Labelled reports whether the workload opted in, that is, carries
// [LabelFramework] with any value.
func (w Workload) Labelled() bool {
	_, ok := w.Meta().Labels[LabelFramework]
	return ok
}

// OptedOut reports whether [LabelInject] switches Rollcall off for the workload.
func (w Workload) OptedOut() bool { return w.Meta().Labels[LabelInject] == "false" }

// Ranks is the number of pods that the workload asks for: parallelism or replicas,
// 1 where it is absent.
func (w Workload) Ranks() int32 {
	if w.Job != nil {
		return ptr.Deref(w.Job.Spec.Parallelism, 1)
	}
	return ptr.Deref(w.StatefulSet.Spec.Replicas, 1)
}

// Foreign reports whether another than the Job controller runs a Job, such as MultiKueue in
// another cluster (KEP-4368). It is only watched: what suspends or ends it is theirs to say,
// and its pods may be elsewhere.
func (w Workload) Foreign() bool {
	return w.Job != nil && ptr.Deref(w.Job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

// Object returns the object itself.
func (w Workload) Object() runtime.Object {
	if w.Job != nil {
		return w.Job
	}
	return w.StatefulSet
}

// DeepCopy returns a view over a copy of the object.
func (w Workload) DeepCopy() Workload {
	return Workload{Job: w.Job.DeepCopy(), StatefulSet: w.StatefulSet.DeepCopy()}
}

// Equal reports whether two workloads hold the same.
func (w Workload) Equal(o Workload) bool {
	return equality.Semantic.DeepEqual(w.Object(), o.Object())
}

// Become overwrites the object with another of the same kind.
func (w Workload) Become(o Workload) {
	if w.Job != nil {
		*w.Job = *o.Job
		return
	}
	*w.StatefulSet = *o.StatefulSet
}
