package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
)

var (
	// errServiceConflict means that a Service of the user has the name of the gang's Service and does
	// not resolve the names of the ranks.
	errServiceConflict = errors.New("the name of the Service is already in use")
	// errChildChanging means that a member or a child of the gang is being deleted or was changed during the pass.
	errChildChanging = errors.New("a member or a child of the gang is being deleted or changed")
)

// ensureChildren creates the objects to which the workloads refer. All members own them, so that they
// are deleted with the last member.
func (r *Reconciler) ensureChildren(ctx context.Context, g *observedGang, next lifecycle.State) error {
	first := g.firstResult()
	if first == nil {
		return nil
	}
	groupErr := errors.Join(r.ensurePodGroup(ctx, g, next), r.ensureHostOrder(ctx, g, next))
	service, err := r.ensureService(ctx, g, *first, next)
	if err != nil || first.Children.KeyPairSecret == "" {
		return errors.Join(groupErr, err)
	}
	return errors.Join(groupErr, r.ensureKeyPair(ctx, g, next.Phase, service))
}

// setOwners makes all injected members owners of an object.
func (r *Reconciler) setOwners(g *observedGang, o client.Object) error {
	for _, m := range g.Members {
		if !m.IsInjected() {
			continue
		}
		err := controllerutil.SetOwnerReference(m.clientObject(), o, r.Client.Scheme(),
			controllerutil.WithBlockOwnerDeletion(true))
		if err != nil {
			return fmt.Errorf("setting the owners of %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// ensureService creates or updates the headless Service of the gang and returns it; nil if the gang
// needs no Service. Gangs of the same name, such as the runs of a CronJob, share the Service.
func (r *Reconciler) ensureService(
	ctx context.Context, g *observedGang, result injectors.Result, next lifecycle.State,
) (*corev1.Service, error) {
	want := result.BuildService()
	if want == nil {
		return nil, nil
	}
	if err := r.setOwners(g, want); err != nil {
		return nil, err
	}
	have, err := r.findService(ctx, client.ObjectKeyFromObject(want))
	if err != nil {
		return nil, err
	}
	if have == nil {
		created := want.DeepCopy()
		if err := r.isolateAttempt(ctx, g, want, created, next); err != nil {
			return nil, err
		}
		if have, err = r.createService(ctx, created); err != nil {
			return nil, err
		}
		if have == created {
			r.recordIsolation(g, have, next)
			return have, nil
		}
	}
	if have.DeletionTimestamp != nil {
		return nil, errChildChanging
	}
	if !isGangService(have, want.Labels[gang.LabelGang]) {
		return have, r.acceptUserService(g, have)
	}
	r.keepSharedPorts(g, have, want)
	keepPublishedRanks(have, want)
	if err := r.isolateAttempt(ctx, g, have, want, next); err != nil {
		return nil, err
	}
	if err := r.updateService(ctx, have, want); err != nil {
		g.awaitsIsolation = g.isSuspendedWithPods(next) && g.hasAttemptLabels()
		return nil, err
	}
	r.recordIsolation(g, have, next)
	return have, nil
}

// createService creates the Service and returns it, or the Service that exists already. A request without
// a read before is the usual case. The cache contains only Services of Rollcall, so the user may have
// created the Service. A quota can reject the request even if the Service exists.
func (r *Reconciler) createService(ctx context.Context, want *corev1.Service) (*corev1.Service, error) {
	key := client.ObjectKeyFromObject(want)
	createErr := r.Client.Create(ctx, want, FieldOwner)
	if createErr == nil {
		r.sessions.rememberService(want, r.Clock.Now())
		return want, nil
	}
	have := &corev1.Service{}
	err := r.APIReader.Get(ctx, key, have)
	switch {
	case apierrors.IsNotFound(err) && apierrors.IsAlreadyExists(createErr):
		return nil, errChildChanging
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("creating the Service %s: %w", key.Name, createErr)
	case err != nil:
		return nil, fmt.Errorf("reading the Service %s: %w", key.Name, err)
	}
	r.sessions.rememberService(have, r.Clock.Now())
	return have, nil
}

// isGangService reports whether Rollcall, and not a user, created the Service for gangs of a name. A user's
// Service can have the label of the gang, too, and the policy of the chart protects it
// (docs/adr/0013-permissions.md).
func isGangService(have *corev1.Service, gangName string) bool {
	return isChildOf(have, gangName) && !isTooLarge(have)
}

// isChildOf reports whether Rollcall created an object for a gang of a name.
func isChildOf(have metav1.Object, gangName string) bool {
	labels := have.GetLabels()
	return labels[gang.LabelGang] == gangName && labels[injectors.LabelManagedBy] == injectors.ManagedBy
}

// isOwnedBy reports whether an owner of an object has a UID.
func isOwnedBy(o metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// acceptUserService reports a conflict on each member for which a Service of the user does not resolve
// the names of the ranks. It never changes the Service.
func (r *Reconciler) acceptUserService(g *observedGang, have *corev1.Service) error {
	var err error
	for _, m := range g.Members {
		mismatch := gang.ServiceMismatch(have, m.Workload, m.publishedRanks())
		if isTooLarge(have) {
			mismatch = "is too large"
		}
		if mismatch != "" {
			r.recordWarning(m.Workload, gang.ReasonServiceConflict, eventActionCreateChildren,
				"The Service %s exists and %s. Rename the workload, or name the gang with the label %s",
				have.Name, mismatch, gang.LabelGang)
			err = errServiceConflict
		}
	}
	return err
}

// publishedRanks returns the ranks that the Service must publish; all ranks if the workload could not be
// parsed.
func (m member) publishedRanks() gang.PublishedRanks {
	if m.Result == nil {
		return gang.PublishAll
	}
	return m.Result.Gang.PublishedRanks
}

// keepSharedPorts keeps the ports of a Service that other gangs of the same name own, too. Otherwise
// the gangs would overwrite the ports alternately. The Service is headless, so its ports affect only
// SRV records: ranks connect to the port of their own gang.
func (r *Reconciler) keepSharedPorts(g *observedGang, have, want *corev1.Service) {
	isOther := func(o metav1.OwnerReference) bool { return !isOwnedBy(want, o.UID) }
	isShared := slices.ContainsFunc(have.OwnerReferences, isOther)
	if !isShared || equality.Semantic.DeepEqual(have.Spec.Ports, want.Spec.Ports) {
		return
	}
	want.Spec.Ports = have.Spec.Ports
	if g.pass.session.recordReport("shared Service " + have.Name) {
		r.recordWarning(g.primaryMember().Workload, gang.ReasonServiceShared, eventActionCreateChildren,
			"The Service %s belongs to other gangs, too, and keeps their port. "+
				"Set the same annotation %s, or choose another gang name with the label %s",
			have.Name, gang.AnnotationPort, gang.LabelGang)
	}
}

// keepPublishedRanks sets the selector of all ranks if that of the existing Service differs from that of want.
// It never replaces the selector of all ranks by that of rank 0, because programs may already use the names of
// the others. Gangs that share a Service agree on all ranks.
func keepPublishedRanks(have, want *corev1.Service) {
	selector := maps.Clone(have.Spec.Selector)
	delete(selector, gang.LabelAttempt)
	if !maps.Equal(selector, want.Spec.Selector) {
		want.Spec.Selector = map[string]string{gang.LabelGang: want.Labels[gang.LabelGang]}
	}
}

// updateService updates owners, selector and ports of a Service of Rollcall. It does not remove owners,
// because gangs of the same name share the Service.
func (r *Reconciler) updateService(ctx context.Context, have, want *corev1.Service) error {
	before := have.DeepCopy()
	for _, owner := range want.OwnerReferences {
		if !isOwnedBy(have, owner.UID) {
			have.OwnerReferences = append(have.OwnerReferences, owner)
		}
	}
	have.Spec.Selector, have.Spec.Ports = want.Spec.Selector, want.Spec.Ports
	have.Spec.PublishNotReadyAddresses = want.Spec.PublishNotReadyAddresses
	if equality.Semantic.DeepEqual(before, have) {
		return nil
	}
	return r.patchChild(ctx, "Service", before, have)
}

// patchChild writes the changes of a child. The child may not be watched, so no event follows a conflict.
func (r *Reconciler) patchChild(ctx context.Context, kind string, before, after client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch, FieldOwner); apierrors.IsConflict(err) {
		return errChildChanging
	} else if err != nil {
		return fmt.Errorf("updating the %s %s: %w", kind, after.GetName(), err)
	}
	return nil
}

// deleteChild deletes a child that was read, and not another one of its name. It need not exist any more.
func (r *Reconciler) deleteChild(ctx context.Context, kind string, child client.Object) error {
	err := r.Client.Delete(ctx, child, client.Preconditions{UID: ptr.To(child.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the %s %s: %w", kind, child.GetName(), err)
	}
	return nil
}
