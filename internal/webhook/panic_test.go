package webhook_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/pytorch"
	"rollcall.training/internal/webhook"
	"rollcall.training/plan"
)

// panickingInjector is an injector with a bug.
type panickingInjector struct{ pytorch.Injector }

func (panickingInjector) Plan(gang.Gang) plan.Plan { panic("a bug") }

// TestPanic checks over HTTP that a panic fails only its own request.
func TestPanic(t *testing.T) {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	engine := injectors.NewEngine(injectors.Registry{panickingInjector{}}, gang.Config{})
	webhook.Register(server, webhook.Options{Engine: engine, Draining: func() bool { return false }})
	endpoint := httptest.NewServer(server.WebhookMux())
	defer endpoint.Close()
	for range 2 { // the second request requires that the process is still running
		r := postReview(t, endpoint.URL+webhook.MutatePath, setFrameworkLabel(t, unlabeledJob))
		if r.Allowed || r.Result.Code != http.StatusInternalServerError {
			t.Errorf("the response is %+v, want code 500", r)
		}
	}
	if r := postReview(t, endpoint.URL+webhook.MutatePath, []byte(unlabeledJob)); !r.Allowed {
		t.Errorf("a request without the label was not allowed: %+v", r.Result)
	}
}

func postReview(t *testing.T, url string, object []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       "1",
			Operation: admissionv1.Create,
			Kind:      metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
			Object:    runtime.RawExtension{Raw: object},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil {
		t.Fatalf("decoding the review: %v: %s", err, text)
	}
	return review.Response
}
