package webhook_test

import (
	"context"
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/internal/webhook"
)

// typedDefaulter calls the engine from controller-runtime's typed Defaulter.
type typedDefaulter struct{}

func (typedDefaulter) Default(_ context.Context, job *batchv1.Job) error {
	_, err := newEngine().Inject(gang.Workload{Job: job})
	return err
}

// TestPatchPreservesUnknownFields shows why [webhook.Mutator] does not use the typed Defaulter
// (docs/adr/0001). The user's variable RUN refers to an injected variable, which is therefore inserted
// before RUN. A comparison by position then assigns a field that the Go types do not have to a
// different variable. If the check of the typed Defaulter fails, upstream has changed the comparison,
// and the decision can be reviewed.
func TestPatchPreservesUnknownFields(t *testing.T) {
	raw := []byte(`{"apiVersion":"batch/v1","kind":"Job",
		"metadata":{"name":"train","namespace":"default","labels":{"rollcall.training/framework":"pytorch"}},
		"spec":{"parallelism":2,"completions":2,"template":{"spec":{"containers":[{"name":"trainer",
			"env":[{"name":"RUN","value":"run-$(RANK)","futureField":"of RUN"}]}]}}}}`)
	req := newRequest(admissionv1.Create, gang.Job, nil, raw)
	upstream := admission.WithDefaulter(clientgoscheme.Scheme, typedDefaulter{}).Handler.Handle(t.Context(), req)
	if err := upstream.Complete(req); err != nil { // encodes the patch, as the server does
		t.Fatal(err)
	}
	if owner := envNameWithFutureField(t, applyPatch(t, raw, upstream)); owner == "RUN" {
		t.Error("the typed Defaulter preserves the field; review the decision in docs/adr/0001")
	}
	ours := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req)
	if owner := envNameWithFutureField(t, applyPatch(t, raw, ours)); owner != "RUN" {
		t.Errorf("the field of RUN moved to %q", owner)
	}
}

// envNameWithFutureField returns the name of the variable with the field futureField.
func envNameWithFutureField(t *testing.T, raw []byte) string {
	t.Helper()
	var job struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Env []struct{ Name, FutureField string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &job); err != nil {
		t.Fatal(err)
	}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		if e.FutureField != "" {
			return e.Name
		}
	}
	return ""
}
