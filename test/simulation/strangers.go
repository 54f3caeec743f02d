package simulation

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// createStranger creates a StatefulSet that has the gang's name and other settings.
func (s *simulation) createStranger() {
	if len(s.scenario.members()) == 1 || !s.oracle.isAnyMember() {
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
	admitted, err := s.admission.admitCreate(o)
	if err == nil {
		_, err = s.api.create(admitted)
	}
	if err != nil {
		s.record("stranger", "cannot create %s: %v", name, err)
		return
	}
	s.record("stranger", "creates %s", name)
}

// deleteStrangers deletes the strangers after the last member. They would be the gang otherwise.
func (s *simulation) deleteStrangers() {
	for name := range s.oracle.strangers {
		_ = s.api.delete(statefulSetKind, name, deleteOptions{}) // gone already
	}
}
