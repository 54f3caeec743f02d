package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRateLimiter checks that a step that fails for an hour does not delay steps that depend on
// time.
func TestRateLimiter(t *testing.T) {
	limiter := NewRateLimiter()
	var longest time.Duration
	for range 100 {
		longest = max(longest, limiter.When(trainRequest))
	}
	if longest > 30*time.Second || longest < 10*time.Second {
		t.Errorf("the longest delay is %s", longest)
	}
}

// TestHandleError checks which errors fail a pass and which only show a stale cache.
func TestHandleError(t *testing.T) {
	jobs := batchv1.Resource("jobs")
	ends := apierrors.NewForbidden(corev1.Resource("services"), "train", errors.New("the namespace is terminating"))
	ends.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err         error
		wantError   bool
		wantRequeue bool
	}{
		"no error":                 {},
		"conflict":                 {err: apierrors.NewConflict(jobs, "train", nil), wantRequeue: true},
		"object was deleted":       {err: fmt.Errorf("writing: %w", apierrors.NewNotFound(jobs, "train"))},
		"namespace is terminating": {err: fmt.Errorf("creating: %w", ends)},
		"request is forbidden": {
			err:       apierrors.NewForbidden(jobs, "train", errors.New("a quota")),
			wantError: true,
		},
		"too many requests":   {err: apierrors.NewTooManyRequests("later", 1), wantError: true},
		"Service was changed": {err: errChildChanging, wantRequeue: true},
	} {
		l := &pass{}
		l.handleError(c.err)
		if (len(l.errs) > 0) != c.wantError || (l.requeueDelay > 0) != c.wantRequeue {
			t.Errorf("%s: errors %v, requeue after %s", name, l.errs, l.requeueDelay)
		}
	}
}

// TestServiceConflict checks that a pass is scheduled after a Service was changed while its
// owners were updated, because no event of the Service follows.
func TestServiceConflict(t *testing.T) {
	w := newTestCluster(t, newLauncherJob(t))
	w.reconcileOnce(t, trainRequest)
	if err := w.Create(t.Context(), newWorkerStatefulSet(t)); err != nil {
		t.Fatal(err)
	}
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if _, ok := o.(*corev1.Service); ok {
				return apierrors.NewConflict(corev1.Resource("services"), o.GetName(), nil)
			}
			return c.Patch(ctx, o, p, opts...)
		}})
	if after := w.reconcileOnce(t, trainRequest); after <= 0 || after > time.Second {
		t.Errorf("the next pass is due in %s", after)
	}
}
