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

// TestRetries: a step that fails for an hour does not hold up what time alone brings about.
func TestRetries(t *testing.T) {
	limiter := retries()
	var longest time.Duration
	for range 100 {
		longest = max(longest, limiter.When(train))
	}
	if longest > 30*time.Second || longest < 10*time.Second {
		t.Errorf("it is tried again after up to %s", longest)
	}
}

// TestMet: what is an error, and what only tells that the cache is behind.
func TestMet(t *testing.T) {
	jobs := batchv1.Resource("jobs")
	ends := apierrors.NewForbidden(corev1.Resource("services"), "train", errors.New("the namespace ends"))
	ends.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err   error
		fails bool
		again bool
	}{
		"none":              {nil, false, false},
		"conflict":          {apierrors.NewConflict(jobs, "train", nil), false, false},
		"gone":              {fmt.Errorf("writing: %w", apierrors.NewNotFound(jobs, "train")), false, false},
		"namespace ends":    {fmt.Errorf("creating: %w", ends), false, false},
		"forbidden":         {apierrors.NewForbidden(jobs, "train", errors.New("a quota")), true, false},
		"too many requests": {apierrors.NewTooManyRequests("later", 1), true, false},
		"service changed":   {errServiceGoing, false, true},
	} {
		l := &look{}
		l.met(c.err)
		if (len(l.errs) > 0) != c.fails || (l.after > 0) != c.again {
			t.Errorf("%s: errors %v, again after %s", name, l.errs, l.after)
		}
	}
}

// TestServiceConflict: nobody tells of a Service that was changed in the moment in which its owners were to be.
func TestServiceConflict(t *testing.T) {
	w := newWorld(t, launcher(t))
	w.look(t, train)
	if err := w.Create(t.Context(), worker(t)); err != nil {
		t.Fatal(err)
	}
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Service); ok {
				return apierrors.NewConflict(corev1.Resource("services"), o.GetName(), nil)
			}
			return c.Patch(ctx, o, p, opts...)
		}})
	if after := w.look(t, train); after <= 0 || after > time.Second {
		t.Errorf("the next look is due in %s", after)
	}
}
