package ir

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// Gang describes a gang as its former system did.
type Gang struct {
	// Name is the name of the gang, and of its workload if it has only one.
	Name string
	// Namespace is metadata.namespace of the manifest, or "".
	Namespace string
	// Source is the root of the manifest. Notes about the complete gang are recorded below it.
	Source source.Field
	// Labels and Annotations are the user's. Each workload gets them.
	Labels, Annotations map[string]string
	// Framework is the value of the label rollcall.training/framework.
	Framework string
	// Frameworks are the frameworks that Rollcall supports.
	Frameworks gang.Frameworks
	// RollcallAnnotations are Rollcall's annotations of each workload, by their full names.
	RollcallAnnotations map[string]string
	// Roles are in the order of their ranks. Without roles there is no gang, and Build returns
	// only AdditionalObjects.
	Roles []Role
	// Homogeneous is true if all roles do the same work, so that roles with equal templates can
	// share one workload.
	Homogeneous bool
	// CompletionRole is the role whose success completed the job, or "" if all had to succeed.
	CompletionRole string
	// JobSpec holds the fields of each Job except for its size and template. StatefulSets do not
	// have these fields.
	JobSpec batchv1.JobSpec
	// TTLField is the place of JobSpec.TTLSecondsAfterFinished in the manifest. See [Gang.Build].
	TTLField source.Field
	// SourceLabels are the labels and annotations that the former system gave to pods.
	SourceLabels map[string]SourceLabel
	// ConfigMapTexts are texts outside the manifest that can contain former pod names.
	ConfigMapTexts []string
	// Aliases selects the former pod names that get a Service.
	Aliases source.AliasPolicy
	// AdditionalObjects are further objects, for example a PodGroup.
	AdditionalObjects []runtime.Object
}

// WorkloadRef names a workload.
type WorkloadRef struct {
	// Kind is Job or StatefulSet.
	Kind string
	// Name is metadata.name.
	Name string
}

// Role is one role of a gang.
type Role struct {
	// Name is a value of the label rollcall.training/role.
	Name string
	// Pods is the number of pods, at least 1.
	Pods int32
	// Template is the pod template as the former system would have written it.
	Template corev1.PodTemplateSpec
	// Source is the place of the pod template in the manifest.
	Source source.Field
	// RollcallAnnotations are Rollcall's annotations of this workload only, by their full names.
	RollcallAnnotations map[string]string
	// Labels and Annotations are the user's, for this workload only.
	Labels, Annotations map[string]string
	// JobSpec replaces [Gang.JobSpec] for the Job of this role. Nil means no replacement.
	JobSpec *batchv1.JobSpec
	// StatefulSet requests a StatefulSet, because the pods of the role never finish. Build makes
	// a Job if a feature of Jobs is required; see [Gang.RoleJobReason].
	StatefulSet bool
	// JobReason names the feature of Jobs that the role requires, as the start of a report text.
	// It is empty if the reader knows of none.
	JobReason string
	// PodFailurePolicy is the policy of the role's Job, or nil.
	PodFailurePolicy *batchv1.PodFailurePolicy
	// VolumeClaimTemplates are those of the role's StatefulSet.
	VolumeClaimTemplates []corev1.PersistentVolumeClaim
	// SourceNames are the former names of the pods.
	SourceNames SourceNames
}

// PodCount returns the number of pods of all roles.
func (b *Gang) PodCount() int32 {
	n := int32(0)
	for _, r := range b.Roles {
		n += r.Pods
	}
	return n
}

// NeverRestarts reports whether a failure fails the gang.
func (b *Gang) NeverRestarts() bool {
	return b.RollcallAnnotations[gang.AnnotationRestartPolicy] == string(gang.RestartPolicyNever)
}

// SetAnnotation sets an annotation of Rollcall on all workloads of the gang.
func (b *Gang) SetAnnotation(key, value string) { b.RollcallAnnotations[key] = value }
