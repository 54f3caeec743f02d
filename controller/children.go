package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

var (
	// errServiceTaken says that a Service which is not ours bears the name of the
	// gang's and cannot serve.
	errServiceTaken = errors.New("the name of the gang's Service is taken")
	// errServiceGoing says that a Service of that name is being deleted, or changed.
	errServiceGoing = errors.New("the gang's Service is being deleted, or changed")
)

// serviceRetry is how often a Service that is in the way is looked at again.
// Services that are not ours are not watched, which keeps the cache small;
// somebody who deletes the one in the way waits half of this on average.
const serviceRetry = 30 * time.Second

// children makes what the workloads name. All members own it together, so that it
// goes with the last of them.
func (r *Reconciler) children(ctx context.Context, p *party, next gang.Phase) error {
	lead := p.lead()
	if lead == nil {
		return nil
	}
	service, err := r.ensureService(ctx, p, *lead)
	if err != nil || lead.Children.KeyPair == "" {
		return err
	}
	return r.ensureKeyPair(ctx, p, next, service)
}

// own makes the members owners of an object.
func (r *Reconciler) own(p *party, o client.Object) error {
	for _, m := range p.members {
		if !m.injected() {
			continue
		}
		if err := controllerutil.SetOwnerReference(m.object(), o, r.Client.Scheme(), controllerutil.WithBlockOwnerDeletion(true)); err != nil {
			return fmt.Errorf("owning %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// ensureService makes the gang's headless Service, or finds it. Workloads that bear
// the name of one gang without being members of it, such as the runs of a CronJob,
// share it too. The Service is nil when the gang needs none.
func (r *Reconciler) ensureService(ctx context.Context, p *party, result injectors.Result) (*corev1.Service, error) {
	want := result.Service()
	if want == nil {
		return nil, nil
	}
	if err := r.own(p, want); err != nil {
		return nil, err
	}
	have := &corev1.Service{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		// The cache holds our own Services alone; the user may have one.
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	}
	switch {
	case apierrors.IsNotFound(err):
		return want, r.createService(ctx, p, want)
	case err != nil:
		return nil, fmt.Errorf("reading the Service %s: %w", want.Name, err)
	case have.DeletionTimestamp != nil:
		return nil, errServiceGoing
	}
	if !ours(have, want) {
		return have, r.shareService(p, have)
	}
	return have, r.alignService(ctx, have, want)
}

// ours tells a gang's own Service from one that its user made.
func ours(have, want *corev1.Service) bool {
	return have.Labels[gang.LabelGang] == want.Labels[gang.LabelGang]
}

func (r *Reconciler) createService(ctx context.Context, p *party, want *corev1.Service) error {
	err := r.Client.Create(ctx, want, FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		return errServiceGoing // made this moment, by someone; look again
	}
	if err != nil {
		return fmt.Errorf("creating the Service %s: %w", want.Name, err)
	}
	r.normal(p.first().Workload, gang.ReasonServiceCreated, actionMakeChildren, "Created the headless Service %s", want.Name)
	return nil
}

// shareService accepts a Service of the user's that gives the ranks their names as
// well as ours would, and leaves it as it is.
func (r *Reconciler) shareService(p *party, have *corev1.Service) error {
	var err error
	for _, m := range p.members {
		if why := gang.Unfit(have, m.Workload); why != "" {
			r.warning(m.Workload, gang.ReasonServiceConflict, actionMakeChildren,
				"The Service %s exists and %s; rename the workload, or name the gang with the label %s", have.Name, why, gang.LabelGang)
			err = errServiceTaken
		}
	}
	return err
}

// alignService brings a Service of ours up to date, its owners included.
func (r *Reconciler) alignService(ctx context.Context, have, want *corev1.Service) error {
	before := have.DeepCopy()
	for _, o := range want.OwnerReferences {
		owned := false
		for _, h := range have.OwnerReferences {
			owned = owned || h.UID == o.UID
		}
		if !owned {
			have.OwnerReferences = append(have.OwnerReferences, o)
		}
	}
	have.Spec.Selector, have.Spec.Ports = want.Spec.Selector, want.Spec.Ports
	have.Spec.PublishNotReadyAddresses = want.Spec.PublishNotReadyAddresses
	if equality.Semantic.DeepEqual(before, have) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, have, patch, FieldOwner); apierrors.IsConflict(err) {
		return errServiceGoing // changed this moment, which nobody tells us; look again
	} else if err != nil {
		return fmt.Errorf("aligning the Service %s: %w", have.Name, err)
	}
	return nil
}
