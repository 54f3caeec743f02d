package injectors_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestAgentImage checks that the agent comes from the image of the configuration, and that an upgrade of the manager
// does not change the image in the template of an existing StatefulSet, whatever the user changes.
func TestAgentImage(t *testing.T) {
	newEngine := func(image string) *injectors.Engine {
		return injectors.NewEngine(injectors.Builtin(), gang.Config{AgentImage: image, Build: image})
	}
	old := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train-worker", Namespace: "team",
			Labels: map[string]string{gang.LabelFramework: "mpi", gang.LabelRole: "worker"},
			Annotations: map[string]string{
				gang.AnnotationRoles: "launcher=1,worker=2", gang.AnnotationLaunch: string(gang.LaunchAgent),
			},
		},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)},
	}
	old.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}
	if _, err := newEngine("example.com/manager:1").Admit(gang.Workload{StatefulSet: old}); err != nil {
		t.Fatal(err)
	}
	if got := old.Spec.Template.Spec.InitContainers[0].Image; got != "example.com/manager:1" {
		t.Errorf("the agent comes from %q, want the image of the configuration", got)
	}
	updated := old.DeepCopy()
	c := &updated.Spec.Template.Spec.Containers[0]
	c.Image, c.Env = "example.com/train:2", append(c.Env, corev1.EnvVar{Name: "DATA", Value: "/data"})
	if _, err := newEngine("example.com/manager:2").AdmitUpdate(old, updated); err != nil {
		t.Fatal(err)
	}
	if got := updated.Spec.Template.Spec.InitContainers[0].Image; got != "example.com/manager:1" {
		t.Errorf("after an upgrade, the agent comes from %q, want the image of the existing pods", got)
	}
}
