package injectors_test

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// A labeled Job becomes a member of a gang. The result also contains the Service that the reconciler
// creates for the gang.
func ExampleEngine_Inject() {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "train",
			Namespace: "team",
			Labels:    map[string]string{gang.LabelFramework: "pytorch"},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}},
		},
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	result, err := engine.Inject(gang.Workload{Job: job})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Reason, *job.Spec.CompletionMode)
	for _, e := range job.Spec.Template.Spec.Containers[0].Env[:6] {
		fmt.Printf("%s=%s\n", e.Name, e.Value)
	}
	fmt.Println("service", result.BuildService().Name)
	// Output:
	// Injected Indexed
	// JOB_COMPLETION_INDEX=
	// PYTHONUNBUFFERED=1
	// MASTER_ADDR=train-0.train.team.svc.cluster.local
	// MASTER_PORT=23456
	// RANK=$(JOB_COMPLETION_INDEX)
	// WORLD_SIZE=4
	// service train
}

// A denial lists for each mistake the field, the value, the supported values and a fix.
func ExampleDenialCauses() {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "train",
			Namespace: "team",
			Labels:    map[string]string{gang.LabelFramework: "pytroch"},
		},
		Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}},
		},
	}
	_, err := injectors.NewEngine(injectors.Builtin()[:1], gang.Config{}).Inject(gang.Workload{Job: job})
	for _, cause := range injectors.DenialCauses(err) {
		path, message, _ := strings.Cut(cause, ": ")
		fmt.Println(path)
		fmt.Println(message)
	}
	// Output:
	// metadata.labels[rollcall.training/framework]
	// Unsupported value: "pytroch": supported values: "pytorch"; did you mean "pytorch"?
}
