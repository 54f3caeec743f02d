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
	"rollcall.training/webhook"
)

// typedDefaulter is the engine behind controller-runtime's typed Defaulter.
type typedDefaulter struct{}

func (typedDefaulter) Default(_ context.Context, job *batchv1.Job) error {
	_, err := engine().Inject(gang.Workload{Job: job})
	return err
}

// TestUnknownFieldStaysWithItsEntry is the reason for a handler of our own
// (docs/adr/0003): a variable of the user's that refers to one of ours makes ours
// stand first, and a comparison by position then moves the user's entry away from
// under a field that our types do not know. When the first part fails, upstream
// compares otherwise, and the decision can be looked at again.
func TestUnknownFieldStaysWithItsEntry(t *testing.T) {
	raw := []byte(`{"apiVersion":"batch/v1","kind":"Job",
		"metadata":{"name":"train","namespace":"default","labels":{"rollcall.training/framework":"pytorch"}},
		"spec":{"parallelism":2,"completions":2,"template":{"spec":{"containers":[{"name":"trainer",
			"env":[{"name":"RUN","value":"run-$(RANK)","futureField":"of RUN"}]}]}}}}`)
	req := request(admissionv1.Create, gang.Job, nil, raw)
	upstream := admission.WithDefaulter(clientgoscheme.Scheme, typedDefaulter{}).Handler.Handle(t.Context(), req)
	if owner := ownerOfFutureField(t, apply(t, raw, upstream)); owner == "RUN" {
		t.Error("the typed Defaulter keeps the field at its entry now; docs/adr/0003 can be looked at again")
	}
	ours := webhook.NewMutator(engine()).Handle(t.Context(), req)
	if owner := ownerOfFutureField(t, apply(t, raw, ours)); owner != "RUN" {
		t.Errorf("the field of RUN is now at %q", owner)
	}
}

func ownerOfFutureField(t *testing.T, raw []byte) string {
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
