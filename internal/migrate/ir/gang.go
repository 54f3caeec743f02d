package ir

import (
	"cmp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/scheduling"
	"rollcall.training/plan"
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
	// Roles are in the order of their ranks. Build needs at least one.
	Roles []Role
	// Homogeneous is true if all roles do the same work, so that roles with equal templates can share one workload.
	Homogeneous bool
	// CompletionRole is the role whose success completed the job, or "" if all had to succeed.
	CompletionRole string
	// JobSpec holds the fields of each Job except for its size and template. StatefulSets do not have these fields.
	JobSpec batchv1.JobSpec
	// JobsOnly is true if no role becomes a StatefulSet.
	JobsOnly bool
	// TTLField is the place of JobSpec.TTLSecondsAfterFinished in the manifest. See [Gang.Build].
	TTLField source.Field
	// SourceLabels are the labels and annotations that the former system gave to pods.
	SourceLabels map[string]SourceLabel
	// ConfigMapTexts are texts outside the manifest that can contain former pod names.
	ConfigMapTexts []string
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
	// PodFailurePolicy is the policy of the role's Job, or nil.
	PodFailurePolicy *batchv1.PodFailurePolicy
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

// FindRole returns the role with the given name, or nil.
func (b *Gang) FindRole(name string) *Role {
	if i := slices.IndexFunc(b.Roles, func(role Role) bool { return role.Name == name }); i >= 0 {
		return &b.Roles[i]
	}
	return nil
}

// NeverRestarts reports whether a failure fails the gang.
func (b *Gang) NeverRestarts() bool {
	return b.RollcallAnnotations[gang.AnnotationRestartPolicy] == string(gang.RestartPolicyNever)
}

// SetAnnotation sets an annotation of Rollcall on all workloads of the gang.
func (b *Gang) SetAnnotation(key, value string) {
	b.RollcallAnnotations = MergeMaps(b.RollcallAnnotations, map[string]string{key: value})
}

// serverManagedFields are the metadata fields that the API server writes.
var serverManagedFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "selfLink",
}

// NewGang returns a Gang with the fields that all kinds have: name, namespace, labels and annotations.
func NewGang(o source.Object) *Gang {
	meta := o.Root.Get("metadata")
	b := &Gang{
		Name: o.Name(), Namespace: o.Namespace(), Source: o.Root, RollcallAnnotations: map[string]string{},
		ConfigMapTexts: o.Context.ConfigMapTexts, Frameworks: o.Context.Frameworks, JobsOnly: o.Context.JobsOnly,
	}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		o.Root.Get(name).MarkHandled()
	}
	for _, name := range serverManagedFields {
		meta.Get(name).MarkHandled()
	}
	if b.Name == "" {
		if g := meta.Get("generateName"); g.Exists() {
			g.MarkInvalid("hostnames of the pods contain the name, so it must be fixed; set metadata.name")
		} else {
			meta.Get("name").MarkRequired("the names of the workloads start with it")
		}
	}
	meta.Get("name").MarkPreserved("the name of the gang")
	meta.Get("namespace").MarkPreserved("metadata.namespace")
	meta.Get("finalizers").MarkDropped("the finalizers are for a controller of the source object", "")
	meta.Get("ownerReferences").MarkDropped("the garbage collector would delete the workloads with the owner",
		"set ownerReferences on the new workloads if the owner must keep them")
	b.Labels = meta.Get("labels").StringMap()
	meta.Get("labels").MarkPreserved("labels of each workload")
	annotations := meta.Get("annotations")
	annotations.DeleteKey(corev1.LastAppliedConfigAnnotation) // a copy of the manifest
	for _, key := range annotations.Keys() {
		annotations.Get(key).MarkPreserved("annotation of each workload")
	}
	b.Annotations = annotations.StringMap()
	return b
}

// ConvertSuspend converts a field that suspends the job.
func (b *Gang) ConvertSuspend(f source.Field) {
	if suspend := f.Bool(); ptr.Deref(suspend, false) {
		b.JobSpec.Suspend = suspend
	}
	f.MarkPreserved("spec.suspend of each Job")
}

// ConvertTTL converts the number of seconds after which the finished job is deleted. See [Gang.Build]
// for gangs of several workloads.
func (b *Gang) ConvertTTL(f source.Field) {
	b.JobSpec.TTLSecondsAfterFinished, b.TTLField = f.Int32(), f
	f.MarkPreserved("spec.ttlSecondsAfterFinished of each Job")
}

// ConvertManagedBy converts the name of the controller of the job. Controllers whose name starts with
// the given API group are those of the former system, and not copied.
func (b *Gang) ConvertManagedBy(f source.Field, group string) {
	name := f.String()
	switch {
	case name == "":
	case strings.HasPrefix(name, group+"/"):
		f.MarkLeftOut("the controller of the former system does not manage Jobs")
	default:
		b.JobSpec.ManagedBy = ptr.To(name)
		f.MarkPreserved("spec.managedBy of each Job")
	}
}

// ConvertMPIImplementation converts the implementation of MPI.
func (b *Gang) ConvertMPIImplementation(f source.Field) {
	if name := strings.ToLower(f.String()); name != "" && name != string(gang.OpenMPI) {
		b.SetAnnotation(gang.AnnotationMPIImplementation, name)
	}
	f.MarkPreserved("annotation " + gang.AnnotationMPIImplementation + ", whose default is " + string(gang.OpenMPI))
}

// PodGroup describes a PodGroup. The zero value requires all pods.
type PodGroup struct {
	// Annotations are those of the PodGroup, for example Volcano's preemption settings.
	Annotations map[string]string
	// MinMember is the number of pods that must be placed together. Nil means all pods.
	MinMember *int32
	// Queue is the queue of Volcano. Empty means the default of the scheduler.
	Queue string
	// PriorityClassName is the priority class, or empty.
	PriorityClassName string
}

// Apply adds the PodGroup to the gang and assigns all pods to it. It returns false, and does nothing,
// if there is no gang scheduler.
func (g PodGroup) Apply(b *Gang, s source.Scheduler) bool {
	scheduler := scheduling.Find(gang.Scheduler(s))
	if scheduler == nil {
		return false
	}
	group := scheduling.BuildPodGroup(scheduler, scheduler.Versions()[0], scheduling.Group{
		Namespace: b.Namespace, Name: b.Name, MinCount: ptr.Deref(g.MinMember, b.PodCount()),
		PriorityClass: g.PriorityClassName,
	})
	if s == source.SchedulerVolcano && g.Queue != "" {
		group.Object["spec"].(map[string]any)["queue"] = g.Queue
	}
	usesDefaultScheduler := func(r Role) bool { return r.Template.Spec.SchedulerName == "" }
	if s == source.SchedulerCoscheduling && slices.ContainsFunc(b.Roles, usesDefaultScheduler) {
		b.Source.AddNote("some pods do not have schedulerName, so the default scheduler places them",
			"if coscheduling is a plugin of another scheduler, set schedulerName in the pod templates")
	}
	var pods plan.Plan
	scheduler.PlanPods(&pods, gang.Gang{Placement: gang.Placement{PodGroup: b.Name}})
	for i := range b.Roles {
		t := &b.Roles[i].Template
		for _, l := range pods.PodLabels {
			metav1.SetMetaDataLabel(&t.ObjectMeta, l.Name, l.Value)
		}
		for _, a := range pods.PodAnnotations {
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, a.Name, a.Value)
		}
		if s == source.SchedulerCoscheduling {
			t.Spec.PriorityClassName = cmp.Or(t.Spec.PriorityClassName, g.PriorityClassName)
		} else {
			t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, string(source.SchedulerVolcano))
		}
	}
	if len(g.Annotations) > 0 {
		group.SetAnnotations(g.Annotations)
	}
	b.AdditionalObjects = append(b.AdditionalObjects, group)
	return true
}

// Record records what the PodGroup has of the fields of a manifest: the priority class and the queue, which only
// Volcano has. All other settings are dropped. A field may be missing.
func (g PodGroup) Record(b *Gang, s source.Scheduler, priorityClass, queue source.Field, others ...source.Field) {
	if s == source.SchedulerVolcano {
		priorityClass.MarkPreserved("PodGroup " + b.Name)
		queue.MarkPreserved("PodGroup " + b.Name)
	} else {
		priorityClass.MarkPreserved("spec.priorityClassName of the pods")
		queue.MarkDropped("coscheduling has no queues", "")
	}
	for _, f := range others {
		f.MarkDropped("migrate writes only the number of pods, the queue and the priority of a PodGroup",
			"add the field to PodGroup "+b.Name)
	}
}
