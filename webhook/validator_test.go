package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors/conformance"
	"rollcall.training/webhook"
)

// TestValidatorRefusesStrippedUpdate: what the mutating webhook would restore must
// be there at the end.
func TestValidatorRefusesStrippedUpdate(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Template: conformance.Workload(t, []byte(plainJob)).Job.Spec.Template},
	}
	live := update(t, engine(), nil, set)
	r := webhook.NewValidator(clientgoscheme.Scheme, engine()).
		Handle(t.Context(), request(admissionv1.Update, gang.StatefulSet, marshal(t, live), marshal(t, set)))
	if r.Allowed {
		t.Error("an update that lost its injection was let through")
	}
}

func TestValidatorRefusesLostInjection(t *testing.T) {
	job := &batchv1.Job{}
	if err := json.Unmarshal(labelled(t, plainJob), job); err != nil {
		t.Fatal(err)
	}
	r := webhook.NewValidator(clientgoscheme.Scheme, engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, marshal(t, job)))
	if r.Allowed || r.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("a labelled Job without injection was allowed, or refused with another code: %+v", r)
	}
}
