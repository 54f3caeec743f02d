package injectors_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestAttackSizeOfNewStatefulSet checks that the record of a new StatefulSet without replicas contains no size,
// although its manifest contains a record with one. Rollcall would scale the StatefulSet to this size after a
// restart, if admission rejects the real size meanwhile.
func TestAttackSizeOfNewStatefulSet(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train-worker", Namespace: "team",
			Labels: map[string]string{gang.LabelFramework: "pytorch", gang.LabelGang: "train", gang.LabelRole: "worker"},
			Annotations: map[string]string{
				gang.AnnotationRoles:    "master=1,worker=5000",
				gang.AnnotationInjected: `{"injector":"pytorch","replicas":5000}`,
			},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}},
			}},
		},
	}
	e := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	if _, err := e.Admit(gang.Workload{StatefulSet: set}); err != nil {
		t.Fatal(err)
	}
	if got := set.Annotations[gang.AnnotationInjected]; strings.Contains(got, "replicas") {
		t.Errorf("the record is %s, want one without a size", got)
	}
}

// TestAttackRecordWithoutInjection checks that an update cannot add a record to a labeled StatefulSet that cannot
// be injected, because its immutable fields do not fit.
func TestAttackRecordWithoutInjection(t *testing.T) {
	old := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Name: "train", Labels: map[string]string{gang.LabelFramework: "pytorch"},
	}}
	updated := old.DeepCopy()
	updated.Annotations = map[string]string{gang.AnnotationInjected: `{"injector":"pytorch","replicas":1}`}
	e := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	if _, err := e.AdmitUpdate(old, updated); err != nil {
		t.Fatal(err)
	}
	if got, ok := updated.Annotations[gang.AnnotationInjected]; ok {
		t.Errorf("the record is %s, want none", got)
	}
}
