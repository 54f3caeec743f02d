package webhook_test

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/webhook"
)

// TestHold: which updates of a Job that Rollcall has suspended say that its user wants it
// suspended.
func TestHold(t *testing.T) {
	text, err := gang.Status{Phase: gang.Restarting, Stopped: true, Attempt: 1}.Text()
	if err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", Labels: map[string]string{gang.LabelFramework: "pytorch"},
		Annotations: map[string]string{gang.AnnotationStatus: text}}, Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	applied := func(fields string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)}}
	}
	for name, c := range map[string]struct {
		reason  string
		manager string
		fields  []metav1.ManagedFieldsEntry
		holds   bool
	}{
		"a patch":          {"", "kubectl-patch", nil, true},
		"applied":          {"the manifest has the field", "gitops", applied(`{"f:spec":{"f:suspend":{}}}`), true},
		"applied, without": {"a tool that applies the same manifest every few minutes", "gitops", applied(`{"f:spec":{"f:parallelism":{}}}`), false},
		"another applied":  {"what others own says nothing", "kubectl-patch", applied(`{"f:spec":{"f:parallelism":{}}}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			updated := j.DeepCopy()
			updated.ManagedFields = c.fields
			raw := marshal(t, updated)
			req := request(admissionv1.Update, gang.Job, marshal(t, j), raw)
			options, err := json.Marshal(metav1.UpdateOptions{FieldManager: c.manager})
			if err != nil {
				t.Fatal(err)
			}
			req.Options.Raw = options
			r := webhook.NewMutator(engine()).Handle(t.Context(), req)
			var got batchv1.Job
			if err := json.Unmarshal(apply(t, raw, r), &got); err != nil || !r.Allowed {
				t.Fatalf("allowed is %v, %v", r.Allowed, err)
			}
			if s := gang.StatusOf(gang.Workload{Job: &got}); s.Stopped == c.holds || s.Attempt != 1 {
				t.Errorf("%s: the status is %+v", c.reason, s)
			}
			if (len(r.Warnings) > 0) != c.holds {
				t.Errorf("%s: warnings %q", c.reason, r.Warnings)
			}
		})
	}
}

// TestHoldQueue: Kueue's word that a Job may go is heard whoever owns the field, and does
// not count before Rollcall holds the Job back no more.
func TestHoldQueue(t *testing.T) {
	text, err := gang.Status{Phase: gang.Restarting, Stopped: true, Attempt: 1}.Text()
	if err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default",
		Labels:      map[string]string{gang.LabelFramework: "pytorch", gang.LabelQueue: "team"},
		Annotations: map[string]string{gang.AnnotationStatus: text}}, Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	updated := j.DeepCopy()
	updated.Spec.Suspend = ptr.To(false)
	updated.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kueue", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{}`)}}
	raw := marshal(t, updated)
	req := request(admissionv1.Update, gang.Job, marshal(t, j), raw)
	req.Options.Raw = []byte(`{"fieldManager":"kueue"}`)
	r := webhook.NewMutator(engine()).Handle(t.Context(), req)
	var got batchv1.Job
	if err := json.Unmarshal(apply(t, raw, r), &got); err != nil || !r.Allowed {
		t.Fatalf("allowed is %v, %v", r.Allowed, err)
	}
	if !ptr.Deref(got.Spec.Suspend, false) || len(r.Warnings) == 0 || !gang.StatusOf(gang.Workload{Job: &got}).Stopped {
		t.Errorf("suspended %v, status %s, warnings %q", got.Spec.Suspend, got.Annotations[gang.AnnotationStatus], r.Warnings)
	}
}
