package injectors_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

var podTemplate = corev1.PodTemplateSpec{Spec: corev1.PodSpec{
	Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}},
}}

func newLabeledMeta(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   "team",
		Labels:      map[string]string{gang.LabelFramework: "pytorch"},
		Annotations: annotations,
	}
}

func newStatefulSet(name string, annotations map[string]string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: newLabeledMeta(name, annotations),
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Template: *podTemplate.DeepCopy()},
	}
}

// newJob returns a Job of pods that are never restarted in place.
func newJob(annotations map[string]string, size int32) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: newLabeledMeta("train", annotations),
		Spec:       batchv1.JobSpec{Parallelism: &size, Completions: &size, Template: *podTemplate.DeepCopy()},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return job
}

func encodeStatus(t *testing.T, status lifecycle.Status) string {
	t.Helper()
	text, err := status.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
