package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Admit sends an object through the mutating and then the validating webhook that are registered
// for its kind, and keeps their changes. It returns their warnings, or an error if a webhook denies
// the object. An object without webhooks is admitted.
func Admit(ctx context.Context, server webhook.Server, o *unstructured.Unstructured) ([]string, error) {
	gvk := o.GroupVersionKind()
	suffix := fmt.Sprintf("-%s-%s-%s", strings.ReplaceAll(gvk.Group, ".", "-"), gvk.Version, strings.ToLower(gvk.Kind))
	var warnings []string
	for _, path := range []string{"/mutate" + suffix, "/validate" + suffix} {
		response, err := sendReview(ctx, server.WebhookMux(), path, o)
		if err != nil {
			return nil, err
		}
		if response == nil {
			continue
		}
		if !response.Allowed {
			return nil, fmt.Errorf("%s %s is denied: %s", gvk.Kind, o.GetName(), response.Result.Message)
		}
		warnings = append(warnings, response.Warnings...)
		if err := applyPatch(response.Patch, o); err != nil {
			return nil, fmt.Errorf("applying the patch of %s: %w", path, err)
		}
	}
	return warnings, nil
}

func sendReview(
	ctx context.Context, mux *http.ServeMux, path string, o *unstructured.Unstructured,
) (*admissionv1.AdmissionResponse, error) {
	if mux == nil {
		return nil, nil
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	gvk := o.GroupVersionKind()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       o.GetUID(),
			Kind:      metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
			Name:      o.GetName(),
			Namespace: o.GetNamespace(),
			Operation: admissionv1.Create,
			Object:    runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		return nil, err
	}
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)).WithContext(ctx)
	request.Header.Set("Content-Type", "application/json")
	handler, pattern := mux.Handler(request)
	if pattern == "" {
		return nil, nil
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil {
		return nil, fmt.Errorf("reading the response of %s: %w", path, err)
	}
	if out.Response == nil {
		return nil, fmt.Errorf("%s returned no response", path)
	}
	return out.Response, nil
}

func applyPatch(patch []byte, o *unstructured.Unstructured) error {
	if len(patch) == 0 {
		return nil
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return err
	}
	before, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := p.Apply(before)
	if err != nil {
		return err
	}
	return o.UnmarshalJSON(after)
}
