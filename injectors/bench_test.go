package injectors_test

import (
	"encoding/json"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/testing/podtest"
)

// BenchmarkInject measures the cost of an admission, from the manifest to the patch. Run it with
// -cpu 1.
func BenchmarkInject(b *testing.B) {
	for _, n := range []int{0, 50, 2000} {
		b.Run(fmt.Sprintf("env=%d", n), func(b *testing.B) {
			benchmarkInjection(b, marshalJobWithEnv(b, n, ""))
		})
		b.Run(fmt.Sprintf("env=%d/first", n), func(b *testing.B) {
			benchmarkInjection(b, marshalJobWithEnv(b, n, "$(RANK)"))
		})
	}
}

// BenchmarkFrameworks measures the cost of an admission by framework and size. Some frameworks cannot
// pass 15,000 addresses to their ranks, so the engine denies the gang. The names of the benchmarks
// contain the outcome.
func BenchmarkFrameworks(b *testing.B) {
	for _, f := range injectors.Builtin().Frameworks() {
		for _, ranks := range []int32{8, 1000, 15_000} {
			job := newJobWithRanks(f, ranks)
			outcome := "admitted"
			engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
			if _, err := engine.Inject(gang.Workload{Job: job.DeepCopy()}); injectors.IsDenied(err) {
				outcome = "denied"
			} else if err != nil {
				b.Fatal(err)
			}
			raw, err := json.Marshal(job)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/ranks=%d/%s", f.Name, ranks, outcome), func(b *testing.B) {
				benchmarkInjection(b, raw)
			})
		}
	}
}

// newJobWithRanks returns the workload that receives the addresses of all ranks: the launcher if the
// framework has a launcher, otherwise a Job of all ranks.
func newJobWithRanks(f gang.Framework, ranks int32) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: newLabeledMeta("train", nil),
		Spec:       batchv1.JobSpec{Parallelism: &ranks, Completions: &ranks},
	}
	job.Labels[gang.LabelFramework] = f.Name
	job.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "trainer", Image: "example.com/train:1", Command: []string{"train"}},
	}
	if f.DefaultRole == gang.RoleLauncher {
		job.Name, job.Spec.Parallelism, job.Spec.Completions = "train-launcher", ptr.To[int32](1), ptr.To[int32](1)
		job.Annotations = map[string]string{
			gang.AnnotationRoles:          fmt.Sprintf("launcher=1,worker=%d", ranks),
			gang.AnnotationSlotsPerWorker: "8",
		}
	}
	return job
}

func benchmarkInjection(b *testing.B, raw []byte) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
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
		if _, err := injection.EncodePatch(injection.Diff(raw, before.Object(), w.Object())); err != nil {
			b.Fatal(err)
		}
	}
}

// marshalJobWithEnv returns a Job with n variables of the user. The last variable has the value
// lastValue, unless lastValue is empty.
func marshalJobWithEnv(b *testing.B, n int, lastValue string) []byte {
	b.Helper()
	job := &batchv1.Job{
		ObjectMeta: newLabeledMeta("train", nil),
		Spec:       batchv1.JobSpec{Parallelism: ptr.To[int32](8), Completions: ptr.To[int32](8)},
	}
	container := corev1.Container{Name: "trainer", Image: "example.com/train:1", Env: podtest.NewVariables(n)}
	if n > 0 && lastValue != "" {
		container.Env[n-1].Value = lastValue
	}
	job.Spec.Template.Spec.Containers = []corev1.Container{container}
	raw, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}
