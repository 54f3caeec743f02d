package gang_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// newPublishedJob returns a Job of 4 pods with the name train.
func newPublishedJob(framework string, annotations map[string]string, c corev1.Container) gang.Workload {
	return gang.Workload{Job: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "train-1", Annotations: annotations,
			Labels: map[string]string{gang.LabelFramework: framework},
		},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Parallelism:    ptr.To[int32](4), Completions: ptr.To[int32](4),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{c},
			}},
		},
	}}
}

func newPublishedStatefulSet() gang.Workload {
	return gang.Workload{StatefulSet: &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](4),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}},
		},
	}}
}

// TestPublishedRanks checks which ranks the Service of a gang publishes, before and after its injection.
func TestPublishedRanks(t *testing.T) {
	const index = batchv1.JobCompletionIndexAnnotation
	publish := func(value string) map[string]string { return map[string]string{gang.AnnotationPublishedRanks: value} }
	command := func(words ...string) corev1.Container { return corev1.Container{Name: "trainer", Command: words} }
	rank0 := map[string]string{gang.LabelGang: "train", index: "0"}
	all := map[string]string{gang.LabelGang: "train"}
	multiWorkload := map[string]string{gang.AnnotationRoles: "master=1,worker=4", gang.AnnotationPublishedRanks: "rank0"}
	for name, c := range map[string]struct {
		workload     gang.Workload
		want         map[string]string
		wantWarnings int
	}{
		"pytorch needs rank 0": {workload: newPublishedJob("pytorch", nil, command("torchrun", "train.py")), want: rank0},
		"jax needs rank 0":     {workload: newPublishedJob("jax", nil, command("python", "train.py")), want: rank0},
		"generic needs all":    {workload: newPublishedJob("generic", nil, command("serve")), want: all},
		"the user publishes all ranks": {
			workload: newPublishedJob("pytorch", publish("all"), command("torchrun", "train.py")), want: all,
		},
		"the user publishes rank 0 despite a name": {
			workload: newPublishedJob("pytorch", publish("rank0"), command("tee", "train-1.log")), want: rank0,
		},
		"the user publishes too little": {
			workload: newPublishedJob("xgboost", publish("rank0"), command("python", "train.py")), want: all, wantWarnings: 1,
		},
		"a StatefulSet has names": {workload: newPublishedStatefulSet(), want: all},
		"any pod of an elastic gang can serve the others": {
			workload: newPublishedJob("pytorch", map[string]string{gang.AnnotationElastic: "2:4"}, command("torchrun", "a.py")),
			want:     all,
		},
		"roles find each other by name": {
			workload: func() gang.Workload {
				w := newPublishedJob("pytorch", multiWorkload, command("torchrun", "train.py"))
				w.Job.Name = "train-worker"
				return w
			}(),
			want: all, wantWarnings: 1,
		},
		"the command contains the name of rank 0": {
			workload: newPublishedJob("pytorch", nil, command("run", "--head", "train-0.train:80")), want: rank0,
		},
		"the command contains a file": {
			workload: newPublishedJob("pytorch", nil, command("run", "--log", "my-train-1.log", "train-data")), want: rank0,
		},
		"the command contains the name of a peer": {
			workload: newPublishedJob("pytorch", nil, command("run", "--peers=train-0.train,train-10.train")), want: all,
		},
		"the command computes names": {
			workload: newPublishedJob("pytorch", nil, command("sh", "-c", "nc train-$i.train 80")), want: all,
		},
		"an argument is the prefix of names": {
			workload: newPublishedJob("pytorch", nil, corev1.Container{Name: "trainer", Args: []string{"--prefix=train-"}}),
			want:     all,
		},
		"a variable contains the name of a peer": {
			workload: newPublishedJob("jax", nil, corev1.Container{
				Name: "trainer", Env: []corev1.EnvVar{{Name: "PEER", Value: "tcp://train-1.train.train-1.svc:80"}},
			}),
			want: all,
		},
		"a name beyond the searched text is not found": {
			workload: newPublishedJob("pytorch", nil, command("run", strings.Repeat("x", 1<<16), "train-1.train")), want: rank0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
			for _, pass := range []string{"first", "second"} {
				result, err := engine.Inject(c.workload)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, result.BuildService().Spec.Selector); diff != "" {
					t.Errorf("selector after the %s injection: -want, +got:\n%s", pass, diff)
				}
				warnings := 0
				for _, w := range result.Warnings {
					if strings.Contains(w.Path, gang.AnnotationPublishedRanks) {
						warnings++
					}
				}
				if warnings != c.wantWarnings {
					t.Errorf("%d warnings, want %d: %q", warnings, c.wantWarnings, result.Warnings)
				}
			}
		})
	}
}
