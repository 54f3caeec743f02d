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
		if _, err := engine.Inject(w); err != nil {
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
