package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
	"rollcall.training/webhook"
)

func engine() *injectors.Engine { return injectors.New(injectors.Builtin(), gang.Config{}) }

// request wraps objects as the API server would; old is nil but for updates.
func request(op admissionv1.Operation, kind gang.Kind, old, object []byte) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: op, Namespace: "default",
		Kind:      metav1.GroupVersionKind{Kind: string(kind)},
		Object:    runtime.RawExtension{Raw: object},
		OldObject: runtime.RawExtension{Raw: old},
	}}
}

func toJSON(t *testing.T, manifest []byte) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// apply does to the text what the API server does with a patch.
func apply(t *testing.T, raw []byte, r admission.Response) []byte {
	t.Helper()
	if len(r.Patches) == 0 {
		return raw
	}
	text, err := json.Marshal(r.Patches)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply(raw)
	if err != nil {
		t.Fatalf("applying %s: %v", text, err)
	}
	return out
}

func TestGoldens(t *testing.T) {
	conformance.Goldens(t, func(t *testing.T, manifest []byte) conformance.Outcome {
		raw := toJSON(t, manifest)
		w := conformance.Workload(t, manifest)
		if w.Meta().Namespace == "" { // the API server sets it before admission
			w.Meta().Namespace = "default"
			raw = withNamespace(t, raw)
		}
		r := webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, w.Kind(), nil, raw))
		out := conformance.Outcome{Warnings: r.Warnings}
		if !r.Allowed {
			if r.Result.Code != http.StatusUnprocessableEntity || r.Result.Reason != metav1.StatusReasonInvalid {
				t.Errorf("denied with %d %s, want 422 Invalid", r.Result.Code, r.Result.Reason)
			}
			for _, c := range r.Result.Details.Causes {
				out.Denials = append(out.Denials, c.Field+": "+c.Message)
			}
			return out
		}
		out.Object = apply(t, raw, r)
		validated := webhook.NewValidator(clientgoscheme.Scheme, engine()).
			Handle(t.Context(), request(admissionv1.Create, w.Kind(), nil, out.Object))
		if !validated.Allowed {
			t.Errorf("the validator refuses what the mutator made: %s", validated.Result.Message)
		}
		return out
	})
}

func withNamespace(t *testing.T, raw []byte) []byte {
	t.Helper()
	out, err := jsonpatch.MergePatch(raw, []byte(`{"metadata":{"namespace":"default"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func labelled(t *testing.T, raw string) []byte {
	t.Helper()
	out, err := jsonpatch.MergePatch([]byte(raw), []byte(`{"metadata":{"labels":{"rollcall.training/framework":"pytorch"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func marshal(t *testing.T, obj any) []byte {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestUnreadableRequests(t *testing.T) {
	for name, req := range map[string]admission.Request{
		"no object":      request(admissionv1.Create, gang.Job, nil, nil),
		"another kind":   request(admissionv1.Create, "Pod", nil, []byte(`{}`)),
		"wrong type":     request(admissionv1.Create, gang.Job, nil, []byte(`{"spec":{"parallelism":"two"}}`)),
		"old unreadable": request(admissionv1.Update, gang.StatefulSet, []byte(`[`), []byte(`{}`)),
	} {
		t.Run(name, func(t *testing.T) {
			r := webhook.NewMutator(engine()).Handle(t.Context(), req)
			if r.Allowed || r.Result.Code != http.StatusBadRequest {
				t.Errorf("want 400, got %+v", r.Result)
			}
		})
	}
}
