package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// errServiceTaken says that a Service which is not ours bears the name of the
// gang's and cannot serve.
var errServiceTaken = errors.New("the name of the gang's Service is taken")

// takenRetry is how often it is looked at again. Services that are not ours are
// not watched, which keeps the cache small; somebody who deletes the one in the
// way waits half of this on average.
const takenRetry = 30 * time.Second

// ensureService makes the gang's headless Service, owned by the workload, so that
// it goes when the workload goes.
func (r *Reconciler) ensureService(ctx context.Context, w gang.Workload, result injectors.Result) error {
	want := result.Service()
	if want == nil {
		return nil
	}
	if err := controllerutil.SetControllerReference(w.Object().(client.Object), want, r.Client.Scheme()); err != nil {
		return fmt.Errorf("owning the Service %s: %w", want.Name, err)
	}
	have := &corev1.Service{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		return r.createService(ctx, w, want)
	case err != nil:
		return fmt.Errorf("reading the Service %s: %w", want.Name, err)
	case have.DeletionTimestamp != nil:
		return nil // its end brings us back here
	}
	return r.alignService(ctx, w, have, want)
}

func (r *Reconciler) createService(ctx context.Context, w gang.Workload, want *corev1.Service) error {
	err := r.Client.Create(ctx, want, FieldOwner)
	if err == nil {
		r.normal(w, gang.ReasonServiceCreated, actionMakeChildren, "Created the headless Service %s", want.Name)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Service %s: %w", want.Name, err)
	}
	have := &corev1.Service{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return fmt.Errorf("reading the Service %s: %w", want.Name, err)
	}
	return r.alignService(ctx, w, have, want)
}

// alignService accepts a Service that is there already: ours, brought up to date,
// or one of the user's that gives the ranks their names as well as ours would.
func (r *Reconciler) alignService(ctx context.Context, w gang.Workload, have, want *corev1.Service) error {
	if !ownedBy(have, w) {
		if why := unfit(have, w); why != "" {
			r.warning(w, gang.ReasonServiceConflict, actionMakeChildren,
				"The Service %s exists and %s; rename the workload, or name the gang with the label %s", have.Name, why, gang.LabelGang)
			return errServiceTaken
		}
		return nil
	}
	if equality.Semantic.DeepEqual(have.Spec.Selector, want.Spec.Selector) &&
		equality.Semantic.DeepEqual(have.Spec.Ports, want.Spec.Ports) &&
		have.Spec.PublishNotReadyAddresses == want.Spec.PublishNotReadyAddresses {
		return nil
	}
	before := have.DeepCopy()
	have.Spec.Selector, have.Spec.Ports = want.Spec.Selector, want.Spec.Ports
	have.Spec.PublishNotReadyAddresses = want.Spec.PublishNotReadyAddresses
	if err := r.Client.Patch(ctx, have, client.MergeFrom(before), FieldOwner); err != nil {
		return fmt.Errorf("aligning the Service %s: %w", have.Name, err)
	}
	return nil
}

func ownedBy(s *corev1.Service, w gang.Workload) bool {
	for _, o := range s.OwnerReferences {
		if o.UID == w.Meta().UID {
			return true
		}
	}
	return false
}

// unfit says why a Service cannot give w's pods their names; "" when it can. It
// need not publish addresses of pods that are not ready: that is its owner's
// choice, and the ranks then meet later.
func unfit(s *corev1.Service, w gang.Workload) string {
	pods := labels.Set(w.Template().Labels)
	switch {
	case s.Spec.ClusterIP != corev1.ClusterIPNone:
		return "is not headless"
	case len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(pods):
		return "does not select the gang's pods"
	}
	return ""
}
