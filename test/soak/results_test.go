package soak

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// TestRecord checks which calls count and which of them have failed.
func TestRecord(t *testing.T) {
	webhookError := func(text string) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "job.rollcall.training": ` + text))
	}
	notReady := apierrors.NewForbidden(batchv1.Resource("jobs"), "a", errors.New("not yet ready to handle request"))
	denied := apierrors.NewForbidden(batchv1.Resource("jobs"), "a",
		errors.New(`admission webhook "job" denied the request`))
	injected := &metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationInjected: "{}"}}
	for name, c := range map[string]struct {
		object         metav1.Object
		err            error
		outage         bool
		wantCalls      int
		wantFailed     string
		wantUninjected int
	}{
		"workload is injected":                   {object: injected, wantCalls: 1},
		"workload is admitted without injection": {object: &metav1.ObjectMeta{}, wantCalls: 1, wantUninjected: 1},
		"webhook does not answer in time": {
			err: webhookError("context deadline exceeded"), wantCalls: 1, wantFailed: "webhook: timeout",
		},
		"webhook fails while the API server restarts": {
			err: webhookError("EOF"), outage: true, wantCalls: 1, wantFailed: "webhook: connection closed",
		},
		"certificate is not trusted": {
			err: webhookError("x509: unknown authority"), wantCalls: 1, wantFailed: "webhook: certificate",
		},
		"webhook denies the workload": {
			err:       denied,
			wantCalls: 1, wantFailed: "webhook: denied",
		},
		"API server that restarts refuses the connection": {err: errors.New("connection refused"), outage: true},
		"API server refuses the connection": {
			err: errors.New("connection refused"), wantCalls: 1, wantFailed: causeNoAnswer,
		},
		"API server that restarts is not ready": {err: notReady, outage: true},
		"API server is not ready":               {err: notReady, wantCalls: 1, wantFailed: causeNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResults()
			start := time.Now()
			if c.outage {
				if err := r.recordOutage(func() error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			r.record("create Job", start, time.Now(), c.object, c.err)
			calls, failed := r.count()
			if calls != c.wantCalls || r.uninjected != c.wantUninjected || failed != r.failures[c.wantFailed] ||
				(failed > 0) != (c.wantFailed != "") {
				t.Errorf("%d calls, %d not injected, failures %v; want %+v", calls, r.uninjected, r.failures, c)
			}
		})
	}
}
