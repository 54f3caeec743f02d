package simulation

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// createStranger creates a StatefulSet that has the gang's name and other settings. Before the Service exists, nobody
// knows which of both is the gang.
func (s *simulation) createStranger() {
	if len(s.scenario.members()) == 1 || !s.oracle.isAnyMember() || s.api.find(serviceKind, gangName) == nil {
		return
	}
	name := gangName + "-stranger"
	s.oracle.strangers.Insert(name)
	o := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{
				gang.LabelFramework: "generic", gang.LabelGang: gangName, gang.LabelRole: "stranger",
			},
			Annotations: map[string]string{gang.AnnotationRoles: "leader=1,stranger=2"},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: trainer, Image: "example.com/train:1"}},
			}},
		},
	}
	s.admitStranger(o)
}

// createSingleJob creates a Job that is a gang of its own, with pods that have the label of the gang.
func (s *simulation) createSingleJob() {
	name := gangName + "-evaluation"
	s.oracle.strangers.Insert(name)
	s.admitStranger(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{gang.LabelFramework: "pytorch", gang.LabelGang: gangName},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](1000),
			CompletionMode: ptr.To(batchv1.NonIndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                 corev1.RestartPolicyNever,
				TerminationGracePeriodSeconds: ptr.To[int64](30),
				Containers:                    []corev1.Container{{Name: trainer, Image: "example.com/train:1"}},
			}},
		},
	})
}

// admitStranger creates a workload that is not a member of the gang.
func (s *simulation) admitStranger(o client.Object) {
	admitted, err := s.admission.admitCreate(o)
	if err == nil {
		_, err = s.api.create(admitted)
	}
	if err != nil {
		s.record("stranger", "cannot create %s: %v", o.GetName(), err)
		return
	}
	s.record("stranger", "creates %s", o.GetName())
	s.oracle.noteReplacement()
}

// deleteStrangers deletes the strangers after the last member. They would be the gang otherwise.
func (s *simulation) deleteStrangers() {
	for name := range s.oracle.strangers {
		_ = s.api.delete(statefulSetKind, name, deleteOptions{}) // gone already, or a Job that is a gang of its own
	}
}

// noteReplacement records that only strangers and members that have finished exist.
func (o *oracle) noteReplacement() {
	o.isReplaced = o.isReplaced || o.strangers.Len() > 0 && !o.isAnyOtherMemberActive("")
}

// checkDeletion checks that a pod that Rollcall deletes belongs to a member of the gang.
func (o *oracle) checkDeletion(pod *corev1.Pod) {
	isMember := slices.ContainsFunc(o.scenario.members(), func(m memberSpec) bool { return m.name == controllerOf(pod) })
	if !isMember {
		o.violate(strangerChanged, "deletes pod %s of %s", pod.Name, controllerOf(pod))
	}
}

// checkWrite checks that a write to a stranger changes only its report. After the gang has finished, or if only members
// exist that have finished, the stranger is a gang of that name (docs/adr/0004-identity.md).
func (o *oracle) checkWrite(before, after client.Object) {
	hasFinished := o.ended || o.final.Phase.Terminal() || o.isReplaced || !o.isAnyMember()
	if !o.strangers.Has(after.GetName()) || hasFinished {
		return
	}
	w, err := gang.WorkloadOf(clone(after))
	if err != nil {
		o.violate(strangerChanged, "%s %s", kindOf(after), after.GetName())
		return
	}
	old, _ := gang.WorkloadOf(clone(before)) // the same kind
	if !equality.Semantic.DeepEqual(old.Template(), w.Template()) || old.IsSuspended() != w.IsSuspended() {
		o.violate(strangerChanged, "the spec of %s %s", kindOf(after), after.GetName())
	}
}
