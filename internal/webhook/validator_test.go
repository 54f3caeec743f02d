package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/webhook"
)

// TestValidatorRejectsStrippedUpdate checks that the validator denies an update without the injection
// that the mutating webhook would restore.
func TestValidatorRejectsStrippedUpdate(t *testing.T) {
	set := newStatefulSet(t)
	live := admitStatefulSet(t, newEngine(), nil, set)
	r := webhook.NewValidator(newEngine(), nil).
		Handle(t.Context(), newRequest(admissionv1.Update, gang.StatefulSet, marshalJSON(t, live), marshalJSON(t, set)))
	if r.Allowed {
		t.Error("an update without injection was allowed")
	}
}

func TestValidatorRejectsLostInjection(t *testing.T) {
	job := &batchv1.Job{}
	if err := json.Unmarshal(setFrameworkLabel(t, unlabeledJob), job); err != nil {
		t.Fatal(err)
	}
	req := newRequest(admissionv1.Create, gang.Job, nil, marshalJSON(t, job))
	r := webhook.NewValidator(newEngine(), nil).Handle(t.Context(), req)
	if r.Allowed || r.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("the response for a labeled Job without injection is %+v, want code 422", r)
	}
}
