package controller

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollcall.training/gang"
)

// TestRewind: below the release in which the Job controller does it, a suspended Job still
// says when it started, and the API server would not take another label in its template.
func TestRewind(t *testing.T) {
	text, err := gang.Status{Phase: gang.Restarting, Attempt: 1, Stopped: true}.Text()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		reason  string
		phase   gang.Phase
		attempt int32
		started bool
		queued  bool
		want    error
	}{
		"started":        {"the time is taken back first", gang.Pending, 1, true, false, errRewound},
		"taken back":     {"the Job can be let go", gang.Pending, 1, false, false, nil},
		"still stopping": {"it is not to be let go yet", gang.Restarting, 1, true, false, nil},
		"held":           {"the template is to have the number before its user lets it go", gang.Suspended, 1, true, false, errRewound},
		"in a queue":     {"nor would it when it is handed over", gang.Suspended, 1, true, true, errRewound},
		"held as it was": {"old Job controllers could not begin it anew", gang.Suspended, 0, true, false, errRewound},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Annotations: map[string]string{gang.AnnotationStatus: text}},
				Spec:   batchv1.JobSpec{Suspend: ptr.To(true)},
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}}
			j.Spec.Template.Labels = map[string]string{gang.LabelAttempt: "0"}
			if c.started {
				j.Status.StartTime = ptr.To(metav1.NewTime(time.Unix(1, 0)))
			}
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(j).WithStatusSubresource(j).Build()}
			var have batchv1.Job
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &have); err != nil {
				t.Fatal(err)
			}
			p := &party{look: &look{}, members: []member{{Workload: gang.Workload{Job: &have}, queued: c.queued}}}
			err := r.rewind(t.Context(), p, p.members[0], gang.Status{Phase: c.phase, Attempt: c.attempt})
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Fatalf("error %v, want %v: %s", err, c.want, c.reason)
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &have); err != nil {
				t.Fatal(err)
			}
			if got := have.Status.StartTime != nil; got != (c.started && c.want == nil) || !*have.Spec.Suspend {
				t.Errorf("it started: %v, suspended: %v: %s", got, *have.Spec.Suspend, c.reason)
			}
		})
	}
}
