package injectors_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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

// TestDenialsOfResult checks that the result of every user error lists the mistakes of the error.
func TestDenialsOfResult(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		inject    func() (injectors.Result, error)
		wantField string
	}{
		"a variable is too long": {
			inject: func() (injectors.Result, error) {
				job := newJob(nil, gang.MaxPods)
				job.Labels[gang.LabelFramework] = "tensorflow"
				return engine.Inject(gang.Workload{Job: job})
			},
			wantField: "spec.parallelism",
		},
		"an existing StatefulSet cannot become a gang": {
			inject: func() (injectors.Result, error) {
				labeled := newStatefulSet("train", nil, 2)
				labeled.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
				old := labeled.DeepCopy()
				old.Labels = nil
				return engine.AdmitUpdate(old, labeled)
			},
			wantField: "spec.serviceName",
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := c.inject()
			if !injectors.IsDenied(err) || len(result.Denials) != 1 || result.Denials[0].Field != c.wantField {
				t.Errorf("denials %v and the error %v, want a denial of %s", result.Denials, err, c.wantField)
			}
		})
	}
}

// TestVariablesInFrontFollowTheirReferences covers a user who sets a rank that the injection refers to, and who also
// refers to a variable of the injection, which must then come first.
func TestVariablesInFrontFollowTheirReferences(t *testing.T) {
	job := newJob(nil, 2)
	job.Labels[gang.LabelFramework] = "tensorflow"
	job.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "TF_TASK_INDEX", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"}}},
		{Name: "LOG", Value: "/logs/$(TF_CONFIG)"},
	}
	w, engine := gang.Workload{Job: job}, injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for _, admission := range []string{"first", "second"} {
		if _, err := engine.Inject(w); err != nil {
			t.Fatal(err)
		}
		env := w.Template().Spec.Containers[0].Env
		position := func(name string) int {
			return slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
		}
		index, config, log := position("TF_TASK_INDEX"), position("TF_CONFIG"), position("LOG")
		if index < 0 || config < index || log < config {
			t.Errorf("%s admission: TF_TASK_INDEX, TF_CONFIG and LOG are at %d, %d and %d, want this order: %v",
				admission, index, config, log, env)
		}
	}
}
