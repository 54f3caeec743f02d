package injectors_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestConflictAfterManyWarnings checks that a wrong rank is denied after any number of warnings, and that
// the number of warnings is limited.
func TestConflictAfterManyWarnings(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(nil, 2)
	spec := &job.Spec.Template.Spec
	spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	for i := range 20 {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{
			Name: fmt.Sprintf("prepare-%d", i), Image: "example.com/prepare:1",
			Env: []corev1.EnvVar{{Name: "PET_NPROC_PER_NODE", Value: "1"}, {Name: "OMP_NUM_THREADS", Value: "77"}},
		})
	}
	accepted := gang.Workload{Job: job.DeepCopy()}
	result, err := engine.Admit(accepted)
	if err != nil || len(result.Warnings) != 20 {
		t.Fatalf("%d warnings and the error %v, want 20 warnings", len(result.Warnings), err)
	}
	spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "RANK", Value: "7"})
	if _, err := engine.Admit(gang.Workload{Job: job}); err == nil || !strings.Contains(err.Error(), "RANK must be") {
		t.Errorf("error %v, want a denial of RANK", err)
	}
}
