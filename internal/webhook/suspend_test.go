package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/webhook"
)

// newRestartingJob returns a Job that Rollcall suspended for its first restart.
func newRestartingJob(t *testing.T) *batchv1.Job {
	t.Helper()
	text, err := lifecycle.Status{State: lifecycle.State{
		Phase:       lifecycle.Restarting,
		Restarts:    1,
		Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
	}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: newLabeledMeta(), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	job.Annotations = map[string]string{gang.AnnotationStatus: text}
	return job
}

// newApplyEntry returns the managed fields of a server-side apply.
func newApplyEntry(manager, fields string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager:   manager,
		Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1:  metav1.NewFieldsV1(fields),
	}}
}

// TestPreserveSuspend checks which updates of a Job that Rollcall suspended mean that the user keeps
// the Job suspended.
func TestPreserveSuspend(t *testing.T) {
	job := newRestartingJob(t)
	for name, c := range map[string]struct {
		manager  string
		fields   []metav1.ManagedFieldsEntry
		wantKept bool
	}{
		"patch": {
			manager:  "kubectl-patch",
			wantKept: true,
		},
		"apply of a manifest with spec.suspend": {
			manager:  "gitops",
			fields:   newApplyEntry("gitops", `{"f:spec":{"f:suspend":{}}}`),
			wantKept: true,
		},
		"repeated apply of a manifest without spec.suspend": {
			manager: "gitops",
			fields:  newApplyEntry("gitops", `{"f:spec":{"f:parallelism":{}}}`),
		},
		"fields of a different manager do not matter": {
			manager:  "kubectl-patch",
			fields:   newApplyEntry("gitops", `{"f:spec":{"f:parallelism":{}}}`),
			wantKept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			updated := job.DeepCopy()
			updated.ManagedFields = c.fields
			raw := marshalJSON(t, updated)
			req := newRequest(admissionv1.Update, gang.Job, marshalJSON(t, job), raw)
			req.Options.Raw = marshalJSON(t, metav1.UpdateOptions{FieldManager: c.manager})
			r := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req)
			var got batchv1.Job
			if err := json.Unmarshal(applyPatch(t, raw, r), &got); err != nil || !r.Allowed {
				t.Fatalf("allowed = %t, error %v", r.Allowed, err)
			}
			status := lifecycle.ReadStatus(gang.Workload{Job: &got})
			if status.SuspendedByRollcall == c.wantKept || status.Restarts != 1 {
				t.Errorf("the status is %+v, want SuspendedByRollcall = %t and 1 restart", status, !c.wantKept)
			}
			if (len(r.Warnings) > 0) != c.wantKept {
				t.Errorf("warnings = %q, want warnings: %t", r.Warnings, c.wantKept)
			}
		})
	}
}

// TestKeepSuspended checks that an update that resumes a Job has no effect while Rollcall suspends the Job,
// regardless of the owner of spec.suspend.
func TestKeepSuspended(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(job *batchv1.Job)
		wantWarning string // empty if the Job is resumed
	}{
		"Kueue resumes a Job in its queue": {
			change:      func(job *batchv1.Job) { job.Labels[gang.LabelQueueName] = "team" },
			wantWarning: "the queue can then resume the Job",
		},
		"GitOps tool applies suspend: false again": {
			change:      func(*batchv1.Job) {},
			wantWarning: "Rollcall then resumes the Job",
		},
		"GitOps tool applies suspend: false to a gang that has finished": {
			change: func(job *batchv1.Job) {
				job.Annotations[gang.AnnotationStatus] = strings.ReplaceAll(job.Annotations[gang.AnnotationStatus],
					"Restarting", "Succeeded")
			},
			wantWarning: "kept true because the gang is Succeeded",
		},
		"reconciler resumes the Job": {
			change: func(job *batchv1.Job) { job.Annotations[gang.AnnotationStatus] = `{"version":1,"phase":"Pending"}` },
		},
		"detached Job is resumed": {
			change: func(job *batchv1.Job) { job.Labels[gang.LabelInject] = "false" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRestartingJob(t)
			updated := job.DeepCopy()
			updated.Spec.Suspend = ptr.To(false)
			updated.ManagedFields = newApplyEntry("gitops", `{}`)
			c.change(updated)
			raw := marshalJSON(t, updated)
			req := newRequest(admissionv1.Update, gang.Job, marshalJSON(t, job), raw)
			req.Options.Raw = []byte(`{"fieldManager":"gitops"}`)
			r := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req)
			var got batchv1.Job
			if err := json.Unmarshal(applyPatch(t, raw, r), &got); err != nil || !r.Allowed {
				t.Fatalf("allowed = %t, error %v", r.Allowed, err)
			}
			if got.Annotations[gang.AnnotationStatus] != updated.Annotations[gang.AnnotationStatus] {
				t.Errorf("the status changed to %s", got.Annotations[gang.AnnotationStatus])
			}
			text := strings.Join(r.Warnings, "\n")
			if *got.Spec.Suspend != (c.wantWarning != "") || !strings.Contains(text, c.wantWarning) {
				t.Errorf("suspend = %t, warnings = %q, want a warning with %q", *got.Spec.Suspend, text, c.wantWarning)
			}
		})
	}
}
