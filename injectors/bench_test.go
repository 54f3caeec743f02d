package injectors_test

import (
	"encoding/json"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

// BenchmarkInject measures what an admission costs the engine: text in, patch out.
// Run it with -cpu 1.
func BenchmarkInject(b *testing.B) {
	for _, n := range []int{0, 50, 2000} {
		b.Run(fmt.Sprintf("env=%d", n), func(b *testing.B) { benchmark(b, jobText(b, n, "")) })
		b.Run(fmt.Sprintf("env=%d/first", n), func(b *testing.B) { benchmark(b, jobText(b, n, "$(RANK)")) })
	}
}

// BenchmarkFrameworks measures the admission of each framework's gangs by their size.
// A gang of 15,000 ranks that cannot be told to its ranks is denied, which has its
// price as well; the names say which.
func BenchmarkFrameworks(b *testing.B) {
	for _, f := range injectors.Builtin().Frameworks() {
		for _, ranks := range []int32{8, 1000, 15_000} {
			job := sized(f, ranks)
			outcome := "admitted"
			if _, err := injectors.New(injectors.Builtin(), gang.Config{}).Inject(gang.Workload{Job: job.DeepCopy()}); injectors.IsDenied(err) {
				outcome = "denied"
			} else if err != nil {
				b.Fatal(err)
			}
			raw, err := json.Marshal(job)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/ranks=%d/%s", f.Name, ranks, outcome), func(b *testing.B) { benchmark(b, raw) })
		}
	}
}

// sized is the workload that knows of all ranks: the launcher where there is one.
func sized(f gang.Framework, ranks int32) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: f.Name}},
		Spec:       batchv1.JobSpec{Parallelism: &ranks, Completions: &ranks},
	}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer", Image: "example.com/train:1", Command: []string{"train"}}}
	if f.Role == gang.RoleLauncher {
		job.Name, job.Spec.Parallelism, job.Spec.Completions = "train-launcher", ptr.To[int32](1), ptr.To[int32](1)
		job.Annotations = map[string]string{gang.AnnotationRoles: fmt.Sprintf("launcher=1,worker=%d", ranks), gang.AnnotationSlots: "8"}
	}
	return job
}

func benchmark(b *testing.B, raw []byte) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		w := gang.Workload{Job: &batchv1.Job{}}
		if err := json.Unmarshal(raw, w.Job); err != nil {
			b.Fatal(err)
		}
		before := w.DeepCopy()
		if _, err := engine.Inject(w); err != nil && !injectors.IsDenied(err) {
			b.Fatal(err)
		}
		if _, err := json.Marshal(plan.Diff(raw, before.Object(), w.Object())); err != nil {
			b.Fatal(err)
		}
	}
}

// jobText is a Job with n variables of the user's, the last with the given value.
func jobText(b *testing.B, n int, last string) []byte {
	b.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec:       batchv1.JobSpec{Parallelism: ptr.To[int32](8), Completions: ptr.To[int32](8)},
	}
	c := corev1.Container{Name: "trainer", Image: "example.com/train:1"}
	for i := range n {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("USER_VARIABLE_%d", i), Value: "some value of ordinary length"})
	}
	if n > 0 && last != "" {
		c.Env[n-1].Value = last
	}
	job.Spec.Template.Spec.Containers = []corev1.Container{c}
	raw, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}
