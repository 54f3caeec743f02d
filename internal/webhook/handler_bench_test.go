package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/connections"
	"rollcall.training/internal/testing/podtest"
)

// BenchmarkMutatingEndpoint measures a request from its text to the text of the response, for a Job with 50
// variables. BenchmarkInject in package injectors measures the part of the engine.
func BenchmarkMutatingEndpoint(b *testing.B) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	h := limitRequests(connections.NewLimiter(1), &ctrlwebhook.Admission{Handler: NewMutator(engine, nil)})
	container := corev1.Container{Name: "trainer", Image: "example.com/train:1", Env: podtest.NewVariables(50)}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team-a", Labels: map[string]string{gang.LabelFramework: "pytorch"},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](8), Completions: ptr.To[int32](8),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		},
	}
	text, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	review := newTestReview(admissionv1.Create, string(text))
	b.ReportAllocs()
	for b.Loop() {
		if w := sendReview(b.Context(), h, review); !strings.Contains(w.Body.String(), `"patch":`) {
			b.Fatalf("code %d: %s", w.Code, w.Body)
		}
	}
}
