package injectors_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestDescribeEditedMetadata checks that edits of the metadata of an admitted Job neither change the
// gang nor stop its reconciliation.
func TestDescribeEditedMetadata(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	const admittedMaxRestarts, defaultMaxRestarts = 5, 3
	for name, c := range map[string]struct {
		edit            func(*batchv1.Job)
		wantMaxRestarts int32
		wantWarning     string // part of the warnings, empty if there must be no warning
	}{
		"no edit": {
			edit:            func(*batchv1.Job) {},
			wantMaxRestarts: admittedMaxRestarts,
		},
		"an invalid annotation is ignored": {
			edit:            func(j *batchv1.Job) { j.Annotations[gang.AnnotationMaxRestarts] = "many" },
			wantMaxRestarts: defaultMaxRestarts,
			wantWarning:     gang.AnnotationMaxRestarts,
		},
		"several invalid annotations are ignored": {
			edit: func(j *batchv1.Job) {
				j.Annotations[gang.AnnotationMaxRestarts] = "-1"
				j.Annotations[gang.AnnotationCleanPodPolicy] = "some"
				j.Annotations[gang.AnnotationPort] = "http"
			},
			wantMaxRestarts: defaultMaxRestarts,
			wantWarning:     gang.AnnotationPort,
		},
		"the framework is that of the pod template": {
			edit:            func(j *batchv1.Job) { j.Labels[gang.LabelFramework] = "jax" },
			wantMaxRestarts: admittedMaxRestarts,
		},
		"the role is that of the pod template": {
			edit:            func(j *batchv1.Job) { j.Labels[gang.LabelRole] = "captain" },
			wantMaxRestarts: admittedMaxRestarts,
		},
		"the name is that of the pod template": {
			edit:            func(j *batchv1.Job) { j.Labels[gang.LabelGang] = "other" },
			wantMaxRestarts: admittedMaxRestarts,
		},
		"an invalid name is not read": {
			edit:            func(j *batchv1.Job) { j.Labels[gang.LabelGang] = "Train_2" },
			wantMaxRestarts: admittedMaxRestarts,
		},
		"a Job without labels has those of the pod template": {
			edit:            func(j *batchv1.Job) { j.Labels = nil },
			wantMaxRestarts: admittedMaxRestarts,
		},
		"a Job with 0 pods keeps its size": {
			edit:            func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](0) },
			wantMaxRestarts: admittedMaxRestarts,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(map[string]string{gang.AnnotationMaxRestarts: "5"}, 2)
			if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			c.edit(job)
			before := job.DeepCopy()
			result, err := engine.Describe(gang.Workload{Job: job})
			if err != nil {
				t.Fatal(err)
			}
			g := result.Gang
			if g.Size != 2 || g.Framework.Name != "pytorch" || g.Name != "train" || g.ServiceName != "train" {
				t.Errorf("the gang is %s with the Service %s, size %d and framework %s, want 2 ranks of pytorch named train",
					g.Name, g.ServiceName, g.Size, g.Framework.Name)
			}
			policies := result.Gang.RestartRules
			if policies.RestartPolicy != gang.RestartPolicyGang || policies.MaxRestarts != c.wantMaxRestarts ||
				policies.CleanPodPolicy != gang.CleanPodPolicyRunning {
				t.Errorf("policies = %+v, want gang, %d restarts, Running", policies, c.wantMaxRestarts)
			}
			warnings := strings.Join(engine.IgnoredAnnotations(gang.Workload{Job: job}).Strings(), "\n")
			if (warnings == "") != (c.wantWarning == "") || !strings.Contains(warnings, c.wantWarning) {
				t.Errorf("warnings = %q, want a warning with %q", warnings, c.wantWarning)
			}
			if !(gang.Workload{Job: job}).Equal(gang.Workload{Job: before}) {
				t.Error("Describe changed the Job")
			}
		})
	}
}

// TestDescribeRenamedMember checks that a new label with the name of the gang changes no member of a
// multi-workload gang.
func TestDescribeRenamedMember(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(map[string]string{gang.AnnotationRoles: "master=1,worker=2"}, 2)
	job.Name, job.Labels[gang.LabelRole] = "train-worker", "worker"
	admitted, err := engine.Admit(gang.Workload{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	job.Labels[gang.LabelGang] = "other"
	described, err := engine.Describe(gang.Workload{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(admitted.Gang, described.Gang); diff != "" {
		t.Errorf("the gang (-admitted +described):\n%s", diff)
	}
}

// TestDescribeInvalidRoles checks that a member without valid roles is not described as a gang of its
// own.
func TestDescribeInvalidRoles(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(map[string]string{gang.AnnotationRoles: "master=1,worker=2"}, 2)
	job.Name = "train-worker"
	if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationRoles] = "many"
	if _, err := engine.Describe(gang.Workload{Job: job}); err == nil {
		t.Error("Describe accepted a member with invalid roles")
	}
}

// TestDescribeTooManyAccelerators checks that a Job without admission, to which a user added the label and
// the record, does not describe a gang if it exceeds a bound.
func TestDescribeTooManyAccelerators(t *testing.T) {
	w := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "train", Namespace: "team",
		Labels:      map[string]string{gang.LabelFramework: "jax"},
		Annotations: map[string]string{gang.AnnotationInjected: "{}"},
	}}}
	w.Template().Spec.Containers = []corev1.Container{{
		Name: "trainer",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			gang.DefaultGPUResource: resource.MustParse("10M"),
		}},
	}}
	result, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Describe(w)
	if !injectors.IsDenied(err) || len(result.Gang.Containers) > 0 {
		t.Errorf("error %v, containers %v, want an error and no gang", err, result.Gang.Containers)
	}
}
