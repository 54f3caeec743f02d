package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/testing/golden"
	"rollcall.training/internal/webhook"
)

func newEngine() *injectors.Engine { return injectors.NewEngine(injectors.Builtin(), gang.Config{}) }

// newRequest returns a request as the API server sends it. The parameter old is nil for a creation.
func newRequest(operation admissionv1.Operation, kind gang.Kind, old, object []byte) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID:       "1",
		Operation: operation,
		Namespace: "default",
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

// applyPatch applies the patch of a response, as the API server does.
func applyPatch(t testing.TB, raw []byte, r admission.Response) []byte {
	t.Helper()
	if len(r.Patch) == 0 {
		return raw
	}
	patch, err := jsonpatch.DecodePatch(r.Patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(raw)
	if err != nil {
		t.Fatalf("applying the patch %s: %v", r.Patch, err)
	}
	return out
}

func TestGoldens(t *testing.T) {
	golden.Run(t, func(t *testing.T, manifest []byte) golden.Result {
		raw := toJSON(t, manifest)
		w := golden.ParseWorkload(t, manifest)
		if w.Meta().Namespace == "" { // the API server sets it before admission
			w.Meta().Namespace = "default"
			raw = setDefaultNamespace(t, raw)
		}
		r := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), newRequest(admissionv1.Create, w.Kind(), nil, raw))
		out := golden.Result{Warnings: r.Warnings}
		if !r.Allowed {
			if r.Result.Code != http.StatusUnprocessableEntity || r.Result.Reason != metav1.StatusReasonInvalid {
				t.Errorf("denied with %d %s, want 422 Invalid", r.Result.Code, r.Result.Reason)
			}
			for _, c := range r.Result.Details.Causes {
				out.Denials = append(out.Denials, c.Field+": "+c.Message)
			}
			return out
		}
		out.Object = applyPatch(t, raw, r)
		validated := webhook.NewValidator(newEngine(), nil).
			Handle(t.Context(), newRequest(admissionv1.Create, w.Kind(), nil, out.Object))
		if !validated.Allowed {
			t.Errorf("the validator denied the result of the mutator: %s", validated.Result.Message)
		}
		return out
	})
}

func setDefaultNamespace(t *testing.T, raw []byte) []byte {
	t.Helper()
	return mergePatch(t, raw, `{"metadata":{"namespace":"default"}}`)
}

func setFrameworkLabel(t *testing.T, raw string) []byte {
	t.Helper()
	return mergePatch(t, []byte(raw), `{"metadata":{"labels":{"rollcall.training/framework":"pytorch"}}}`)
}

// newStatefulSet returns the manifest of a labeled StatefulSet of two replicas.
func newStatefulSet(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: newLabeledMeta(),
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2),
			Template: golden.ParseWorkload(t, []byte(unlabeledJob)).Job.Spec.Template,
		},
	}
}

func newLabeledMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      "train",
		Namespace: "default",
		Labels:    map[string]string{gang.LabelFramework: "pytorch"},
	}
}

func marshalJSON(t *testing.T, obj any) []byte {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decodeWorkload(t *testing.T, kind gang.Kind, raw []byte) gang.Workload {
	t.Helper()
	w, _ := gang.NewWorkload(kind)
	if err := json.Unmarshal(raw, w.Object()); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestUnreadableRequests(t *testing.T) {
	for name, req := range map[string]admission.Request{
		"no object":           newRequest(admissionv1.Create, gang.Job, nil, nil),
		"unsupported kind":    newRequest(admissionv1.Create, "Pod", nil, []byte(`{}`)),
		"field of wrong type": newRequest(admissionv1.Create, gang.Job, nil, []byte(`{"spec":{"parallelism":"two"}}`)),
		"invalid old object":  newRequest(admissionv1.Update, gang.StatefulSet, []byte(`[`), []byte(`{}`)),
	} {
		t.Run(name, func(t *testing.T) {
			r := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req)
			if r.Allowed || r.Result.Code != http.StatusBadRequest {
				t.Errorf("the response is %+v, want code 400", r.Result)
			}
		})
	}
}
