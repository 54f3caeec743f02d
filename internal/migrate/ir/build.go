package ir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// statefulSetSelectorKeys are candidates for the selector of a StatefulSet. Build uses the first one
// that the template does not define.
var statefulSetSelectorKeys = []string{
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "migrated.rollcall.training/statefulset",
}

// plannedWorkload is a workload to be built. The fields of Role are those of the workload.
type plannedWorkload struct {
	Role
	workloadName string
	// roles are the roles in the workload, in the order of their indexes.
	roles []Role
}

// Build returns the objects of the gang: first the objects that its pods need, then the workloads in
// the order of their ranks. It records the workload of each role.
//
// Gangs of several workloads get no TTL: the TTL of each Job starts when that Job finishes, and the
// gang cannot continue without the Job that is deleted first. Gangs with a launcher get one, because
// no workload finishes before the launcher.
func (b *Gang) Build() []runtime.Object {
	if b.JobSpec.TTLSecondsAfterFinished != nil && len(b.Roles) > 1 && !b.fitsOneWorkload() && !b.hasLauncher() {
		b.JobSpec.TTLSecondsAfterFinished = nil
		for i := range b.Roles {
			if spec := b.Roles[i].JobSpec; spec != nil {
				spec.TTLSecondsAfterFinished = nil
			}
		}
		b.TTLField.DiscardEntries()
		b.TTLField.MarkDropped("the TTL of each Job starts when that Job finishes, which is before the gang finishes",
			"delete the gang after it finishes: kubectl delete -f with the new manifest")
	}
	b.convertSchedulerName()
	workloads := b.planWorkloads()
	if len(workloads) > 1 {
		b.Source.At("metadata", "labels").Get(gang.LabelQueueName).AddNote(
			"Kueue admits each workload of the gang separately",
			"enable waitForPodsReady in Kueue if gangs can wait for each other")
	}
	b.replaceSourceNames(workloads)
	out := slices.Clone(b.AdditionalObjects)
	for i := range workloads {
		w := &workloads[i]
		for _, role := range w.roles {
			to := w.workloadRef().String()
			if reason := b.RoleJobReason(role); role.StatefulSet && reason != "" {
				to += " instead of a StatefulSet: " + reason
			}
			role.Source.MarkPreserved(to)
			if len(w.roles) > 1 && role.Name == b.CompletionRole {
				role.Source.AddNoteOnAllJobs(source.TopicCompletion,
					"the success of this role completed the job; now all ranks of the workload must succeed",
					"set "+gang.AnnotationSuccessPolicy+": rank0 for the previous behavior")
			}
		}
		if w.StatefulSet {
			out = append(out, b.buildStatefulSet(w, workloads))
		} else {
			out = append(out, b.buildJob(w, workloads))
		}
	}
	return out
}

func (b *Gang) hasLauncher() bool {
	framework, _ := b.Frameworks.Find(b.Framework)
	return framework.HasLauncher && b.FindRole(gang.RoleLauncher) != nil
}

// String returns the name as kubectl prints it: job.batch/train.
func (r WorkloadRef) String() string {
	w, _ := gang.NewWorkload(gang.Kind(r.Kind))
	return strings.ToLower(w.GroupKind().String()) + "/" + r.Name
}

func (w *plannedWorkload) workloadRef() WorkloadRef {
	if w.StatefulSet {
		return WorkloadRef{string(gang.StatefulSet), w.workloadName}
	}
	return WorkloadRef{string(gang.Job), w.workloadName}
}

// LocateRole returns the workload of a role and the index of the role's first pod in it, for the
// roles that b has so far. It returns zero values for other roles.
func (b *Gang) LocateRole(role string) (WorkloadRef, int32) {
	for _, w := range b.planWorkloads() {
		first := int32(0)
		for _, r := range w.roles {
			if r.Name == role {
				return w.workloadRef(), first
			}
			first += r.Pods
		}
	}
	return WorkloadRef{}, 0
}

// HostNames returns the hostnames of a role's pods within the namespace, for the roles that b has so far.
func (b *Gang) HostNames(role string) []string {
	r := b.FindRole(role)
	if r == nil {
		return nil
	}
	at, first := b.LocateRole(role)
	var out []string
	for i := range r.Pods {
		out = append(out, fmt.Sprintf("%s-%d.%s", at.Name, first+i, b.Name))
	}
	return out
}

// planWorkloads groups the roles into workloads.
func (b *Gang) planWorkloads() []plannedWorkload {
	if len(b.Roles) == 0 {
		return nil
	}
	if b.fitsOneWorkload() {
		first := b.Roles[0]
		w := plannedWorkload{Role: first, workloadName: b.Name, roles: b.Roles}
		w.Pods = b.PodCount()
		for _, r := range b.Roles {
			w.RollcallAnnotations = MergeMaps(w.RollcallAnnotations, r.RollcallAnnotations)
		}
		w.Template = *first.Template.DeepCopy()
		w.Name = "" // the default role of the framework
		w.StatefulSet = b.isStatefulSet(first)
		return []plannedWorkload{w}
	}
	out := make([]plannedWorkload, len(b.Roles))
	for i, r := range b.Roles {
		out[i] = plannedWorkload{Role: r, workloadName: b.Name + "-" + r.Name, roles: []Role{r}}
		out[i].StatefulSet = b.isStatefulSet(r)
		out[i].Template = *r.Template.DeepCopy()
	}
	return out
}

// fitsOneWorkload reports whether all roles can share one workload.
func (b *Gang) fitsOneWorkload() bool {
	first := b.Roles[0]
	for _, r := range b.Roles[1:] {
		if !b.Homogeneous || first.StatefulSet != r.StatefulSet ||
			!equality.Semantic.DeepEqual(first.Template, r.Template) ||
			!equality.Semantic.DeepEqual(first.PodFailurePolicy, r.PodFailurePolicy) {
			return false
		}
	}
	return true
}

// isStatefulSet reports whether a role becomes a StatefulSet.
func (b *Gang) isStatefulSet(r Role) bool { return r.StatefulSet && b.RoleJobReason(r) == "" }

// RoleJobReason names the feature of Jobs that a role or its gang requires, or returns "". With a feature of the
// gang, all roles become Jobs. StatefulSets reject pods with a deadline (kubernetes pkg/apis/apps/validation).
func (b *Gang) RoleJobReason(r Role) string {
	switch {
	case b.JobsOnly:
		return "--jobs-only is set"
	case ptr.Deref(b.JobSpec.Suspend, false):
		return "only Jobs have suspend"
	case b.JobSpec.TTLSecondsAfterFinished != nil:
		return "only Jobs have ttlSecondsAfterFinished"
	case b.JobSpec.ManagedBy != nil:
		return "only Jobs have managedBy"
	case b.Labels[gang.LabelQueueName] != "":
		return "with " + gang.LabelQueueName + ", a StatefulSet keeps its quota until it is deleted"
	case r.Template.Spec.ActiveDeadlineSeconds != nil:
		return "StatefulSets reject pods with activeDeadlineSeconds"
	}
	return ""
}

// buildObjectMeta returns the metadata of a workload.
func (b *Gang) buildObjectMeta(w *plannedWorkload, all []plannedWorkload) metav1.ObjectMeta {
	labels := MergeMaps(b.Labels, w.Labels, map[string]string{gang.LabelFramework: b.Framework})
	if w.Name != "" {
		labels[gang.LabelRole] = w.Name
	}
	meta := metav1.ObjectMeta{
		Name: w.workloadName, Namespace: b.Namespace, Labels: labels,
		Annotations: MergeMaps(b.Annotations, w.Annotations, b.RollcallAnnotations, w.RollcallAnnotations),
	}
	if len(all) > 1 {
		sizes := make([]string, len(all))
		for i := range all {
			sizes[i] = fmt.Sprintf("%s=%d", all[i].Name, all[i].Pods)
		}
		metav1.SetMetaDataAnnotation(&meta, gang.AnnotationRoles, strings.Join(sizes, ","))
	}
	return meta
}

// MergeMaps returns the entries of all maps. Later maps have precedence. It returns nil if there are none.
func MergeMaps[M ~map[K]V, K comparable, V any](all ...M) M {
	var out M
	for _, m := range all {
		if out == nil && len(m) > 0 {
			out = M{}
		}
		maps.Copy(out, m)
	}
	return out
}

func (b *Gang) buildJob(w *plannedWorkload, all []plannedWorkload) *batchv1.Job {
	spec := *b.JobSpec.DeepCopy()
	if w.JobSpec != nil {
		spec = *w.JobSpec.DeepCopy()
	}
	spec.Parallelism, spec.Completions = ptr.To(w.Pods), ptr.To(w.Pods)
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	spec.PodFailurePolicy = w.PodFailurePolicy
	spec.Template = *w.Template.DeepCopy()
	// Jobs permit OnFailure and Never. Always is the default of pod templates.
	if p := spec.Template.Spec.RestartPolicy; p != corev1.RestartPolicyNever {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: string(gang.Job)},
		ObjectMeta: b.buildObjectMeta(w, all),
		Spec:       spec,
	}
}

func (b *Gang) buildStatefulSet(w *plannedWorkload, all []plannedWorkload) *appsv1.StatefulSet {
	template := *w.Template.DeepCopy()
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways // the only policy that StatefulSets permit
	key := statefulSetSelectorKeys[len(statefulSetSelectorKeys)-1]
	for _, k := range statefulSetSelectorKeys {
		if _, defined := template.Labels[k]; !defined {
			key = k
			break
		}
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[key] = w.workloadName
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(gang.StatefulSet)},
		ObjectMeta: b.buildObjectMeta(w, all),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To(w.Pods),
			ServiceName:         cmp.Or(template.Spec.Subdomain, b.Name),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{key: w.workloadName}},
			Template:            template,
		},
	}
}
