package blueprint

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
)

// setLabels are the labels by which a StatefulSet may know its pods: the first that the
// user does not have.
var setLabels = []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "migrated.rollcall.training/statefulset"}

// queued is why a workload that waits in a queue is a Job.
const queued = "the queue of " + gang.LabelQueue + " takes a StatefulSet for a service, which holds its quota for good"

// member is a workload to be built, and the roles that it stands for.
type member struct {
	Role
	workload string
	// parts are the roles in it, in the order of their indexes.
	parts []Role
}

// Build returns the gang's objects: what its pods need first, then its workloads in
// the order of their ranks. It enters where each role went.
//
// A gang of several workloads is given no time to live: that of a Job begins with its own
// end, and the gang could not go on, nor be seen to its end, without the one that went
// first. Behind a launcher none goes before the gang's end.
func (b *Blueprint) Build() []runtime.Object {
	launched := slices.ContainsFunc(b.Roles, func(r Role) bool { return r.Name == gang.RoleLauncher })
	if b.Job.TTLSecondsAfterFinished != nil && len(b.Roles) > 1 && !b.alike() && !launched {
		b.Job.TTLSecondsAfterFinished = nil
		b.TimeToLive.Retract()
		b.TimeToLive.Lost("it would begin for each Job with its own end, and the gang has not ended then", "delete the gang when it has ended: kubectl delete -f with the new manifest")
	}
	members := b.members()
	if len(members) > 1 {
		b.Node.At("metadata", "labels").Get(gang.LabelQueue).Note("to Kueue a gang of several workloads is several, and each is admitted by itself",
			"use Kueue's waitForPodsReady where gangs could wait for each other's rest")
	}
	services := b.rename(members)
	b.reselect(members)
	var out []runtime.Object
	for _, s := range services {
		out = append(out, s)
	}
	for _, extra := range b.Extras {
		out = append(out, extra(func(role string) Place { return place(members, role) }))
	}
	for i := range members {
		m := &members[i]
		for _, part := range m.parts {
			part.Node.Carried(m.place().String() + b.instead(part))
			if len(m.parts) > 1 && part.Name == b.Decides {
				part.Node.Note("the end of this part was the end of the job; where one workload stands for all parts, all ranks have to end well",
					"set "+gang.AnnotationSuccessPolicy+": rank0 for the former way")
			}
		}
		if m.Set {
			out = append(out, b.set(m, members))
		} else {
			out = append(out, b.job(m, members))
		}
	}
	return out
}

// String is the name that kubectl prints: job.batch/train.
func (p Place) String() string {
	group := batchv1.GroupName
	if p.Kind == string(gang.StatefulSet) {
		group = appsv1.GroupName
	}
	return strings.ToLower(p.Kind) + "." + group + "/" + p.Name
}

func (m *member) place() Place {
	if m.Set {
		return Place{string(gang.StatefulSet), m.workload}
	}
	return Place{string(gang.Job), m.workload}
}

func place(members []member, role string) Place {
	for i := range members {
		for _, part := range members[i].parts {
			if part.Name == role {
				return members[i].place()
			}
		}
	}
	return Place{}
}

// Where returns the workload in which a role will be, by what the blueprint says so far,
// and the index of the role's first pod in it. The place is empty for a role that the
// gang does not have.
func (b *Blueprint) Where(role string) (Place, int32) {
	if len(b.Roles) == 0 {
		return Place{}, 0
	}
	for _, m := range b.members() {
		first := int32(0)
		for _, part := range m.parts {
			if part.Name == role {
				return m.place(), first
			}
			first += part.Pods
		}
	}
	return Place{}, 0
}

// Hosts are the names under which the pods of a role will be found by others of their
// namespace, by what the blueprint says so far.
func (b *Blueprint) Hosts(role string) []string {
	at, first := b.Where(role)
	var out []string
	for _, r := range b.Roles {
		if r.Name != role {
			continue
		}
		for i := range r.Pods {
			out = append(out, fmt.Sprintf("%s-%d.%s", at.Name, first+i, b.Name))
		}
	}
	return out
}

// members decides which workloads there are.
func (b *Blueprint) members() []member {
	if len(b.Roles) == 0 {
		return nil
	}
	if b.alike() {
		first := b.Roles[0]
		m := member{Role: first, workload: b.Name, parts: b.Roles}
		m.Pods, m.Keys = 0, map[string]string{}
		for _, r := range b.Roles {
			m.Pods += r.Pods
			maps.Copy(m.Keys, r.Keys)
		}
		m.Template = *first.Template.DeepCopy()
		m.Name = "" // the role that the framework gives a workload alone
		m.Set = b.isSet(first)
		return []member{m}
	}
	out := make([]member, len(b.Roles))
	for i, r := range b.Roles {
		out[i] = member{Role: r, workload: b.Name + "-" + r.Name, parts: []Role{r}}
		out[i].Set = b.isSet(r)
		out[i].Template = *r.Template.DeepCopy()
	}
	return out
}

// alike reports whether one workload can stand for all roles.
func (b *Blueprint) alike() bool {
	if len(b.Roles) == 1 {
		return true
	}
	first := b.Roles[0]
	for _, r := range b.Roles[1:] {
		if !b.OneKind || !equality.Semantic.DeepEqual(first.Template, r.Template) || first.Set != r.Set ||
			!equality.Semantic.DeepEqual(first.PodFailurePolicy, r.PodFailurePolicy) || !equality.Semantic.DeepEqual(first.Claims, r.Claims) {
			return false
		}
	}
	return true
}

// isSet reports whether a role is a StatefulSet: whether it wants to be, and asks for
// nothing that only a Job can do.
func (b *Blueprint) isSet(r Role) bool { return r.Set && b.OnlyJob(r) == "" }

// OnlyJob says what is asked of a role that only a Job can do, for a sentence that goes on
// with it; empty when nothing is. Pods with a deadline of their own are refused in a
// StatefulSet (kubernetes pkg/apis/apps/validation).
func (b *Blueprint) OnlyJob(r Role) string {
	own := r.OnlyJob
	switch {
	case own != "":
	case r.Labels[gang.LabelQueue] != "":
		own = queued
	case r.Template.Spec.ActiveDeadlineSeconds != nil:
		own = "activeDeadlineSeconds of the pods is for pods that end"
	}
	return cmp.Or(b.JobsOnly(), own)
}

// instead tells of a role that is a Job only because something is asked that a StatefulSet
// cannot do.
func (b *Blueprint) instead(r Role) string {
	if why := b.OnlyJob(r); r.Set && why != "" {
		return ", and no StatefulSet: " + why
	}
	return ""
}

// JobsOnly says what is asked of all workloads that a StatefulSet cannot do: wait for a
// queue, which takes a StatefulSet for a service and lets it hold its quota until it is
// scaled to nothing, or go away by itself. There are no StatefulSets then, whatever the
// roles say. It is empty when nothing is.
func (b *Blueprint) JobsOnly() string {
	switch {
	case ptr.Deref(b.Job.Suspend, false):
		return "suspend is for Jobs"
	case b.Job.TTLSecondsAfterFinished != nil:
		return "ttlSecondsAfterFinished is for Jobs"
	case b.Job.ManagedBy != nil:
		return "managedBy is for Jobs"
	case b.Labels[gang.LabelQueue] != "":
		return queued
	}
	return ""
}

// meta is the metadata of one workload.
func (b *Blueprint) meta(m *member, all []member) metav1.ObjectMeta {
	labels, annotations := maps.Clone(b.Labels), maps.Clone(b.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, m.Labels)
	maps.Copy(annotations, m.Annotations)
	labels[gang.LabelFramework] = b.Framework
	if m.Name != "" {
		labels[gang.LabelRole] = m.Name
	}
	maps.Copy(annotations, b.Keys)
	maps.Copy(annotations, m.Keys)
	if len(all) > 1 {
		sizes := make([]string, len(all))
		for i := range all {
			sizes[i] = fmt.Sprintf("%s=%d", all[i].Name, all[i].Pods)
		}
		annotations[gang.AnnotationRoles] = strings.Join(sizes, ",")
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return metav1.ObjectMeta{Name: m.workload, Namespace: b.Namespace, Labels: labels, Annotations: annotations}
}

func (b *Blueprint) job(m *member, all []member) *batchv1.Job {
	spec := *b.Job.DeepCopy()
	if m.Job != nil {
		spec = *m.Job.DeepCopy()
	}
	spec.Parallelism, spec.Completions = ptr.To(m.Pods), ptr.To(m.Pods)
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	spec.PodFailurePolicy = m.PodFailurePolicy
	spec.Template = *m.Template.DeepCopy()
	// A Job has no other policies; Always is what a template without one has.
	if p := spec.Template.Spec.RestartPolicy; p != corev1.RestartPolicyNever {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: string(gang.Job)},
		ObjectMeta: b.meta(m, all),
		Spec:       spec,
	}
}

func (b *Blueprint) set(m *member, all []member) *appsv1.StatefulSet {
	template := *m.Template.DeepCopy()
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways // the only one that a StatefulSet has
	key := setLabels[len(setLabels)-1]
	for _, k := range setLabels {
		if _, taken := template.Labels[k]; !taken {
			key = k
			break
		}
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[key] = m.workload
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(gang.StatefulSet)},
		ObjectMeta: b.meta(m, all),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             ptr.To(m.Pods),
			ServiceName:          cmp.Or(template.Spec.Subdomain, b.Name),
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{key: m.workload}},
			Template:             template,
			VolumeClaimTemplates: m.Claims,
		},
	}
}
