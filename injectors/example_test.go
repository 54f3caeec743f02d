package injectors_test

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// A labelled Job goes in; a member of a gang comes out, with the Service that the
// reconciler makes for it.
func ExampleEngine_Inject() {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}},
		},
	}
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	result, err := engine.Inject(gang.Workload{Job: job})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Reason, *job.Spec.CompletionMode)
	for _, e := range job.Spec.Template.Spec.Containers[0].Env[:5] {
		fmt.Printf("%s=%s\n", e.Name, e.Value)
	}
	fmt.Println("service", result.Service().Name)
	// Output:
	// Injected Indexed
	// PYTHONUNBUFFERED=1
	// MASTER_ADDR=train-0.train.team.svc.cluster.local
	// MASTER_PORT=23456
	// RANK=
	// WORLD_SIZE=4
	// service train
}

// A mistake is answered with its field, its value, what is allowed, and the fix.
func ExampleCauses() {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytroch"}},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}}},
	}
	_, err := injectors.New(injectors.Builtin()[:1], gang.Config{}).Inject(gang.Workload{Job: job})
	for _, cause := range injectors.Causes(err) {
		fmt.Println(cause)
	}
	// Output:
	// metadata.labels[rollcall.training/framework]: Unsupported value: "pytroch": supported values: "pytorch"; did you mean "pytorch"?
}
