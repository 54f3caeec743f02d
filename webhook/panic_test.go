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
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/pytorch"
	"rollcall.training/plan"
	"rollcall.training/webhook"
)

// panicking is an injector with a bug.
type panicking struct{ pytorch.Injector }

func (panicking) Plan(gang.Gang) plan.Plan { panic("a bug") }

// TestPanic sends requests over HTTP: a bug fails its own request and no other.
func TestPanic(t *testing.T) {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	webhook.Register(server, clientgoscheme.Scheme, injectors.New(injectors.Registry{panicking{}}, gang.Config{}), func() bool { return false })
	endpoint := httptest.NewServer(server.WebhookMux())
	defer endpoint.Close()
	for range 2 { // the second finds the process alive
		r := post(t, endpoint.URL+webhook.MutatePath, labelled(t, plainJob))
		if r.Allowed || r.Result.Code != http.StatusInternalServerError {
			t.Errorf("want a failed request, got %+v", r)
		}
	}
	if r := post(t, endpoint.URL+webhook.MutatePath, []byte(plainJob)); !r.Allowed {
		t.Errorf("another request was not answered: %+v", r.Result)
	}
}

func post(t *testing.T, url string, object []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
			Object: runtime.RawExtension{Raw: object},
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
		t.Fatalf("no review came back: %v: %s", err, text)
	}
	return review.Response
}
