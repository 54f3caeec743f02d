package certs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/certs/owner"
)

// reconcileSecret creates and renews the CA in the Secret, passes the CA to the issuer of the serving
// certificate, and sets the owner of the Secret.
func (r *bundleReconciler) reconcileSecret(ctx context.Context, log logr.Logger, now time.Time) error {
	secret := r.cachedSecret()
	if secret == nil {
		return r.writeCA(ctx, log, nil, now, "the Secret does not exist")
	}
	ca, err := parseSigningCA(secret.Data)
	switch {
	case err != nil:
		return r.writeCA(ctx, log, secret, now, err.Error())
	case !now.Before(renewalTime(ca.certificate)):
		return r.writeCA(ctx, log, secret, now, "the renewal is due")
	}
	r.leaf.ca.Store(&ca)
	r.queue.AddAfter(secretQueueKey, renewalTime(ca.certificate).Sub(now))
	return r.reconcileOwner(ctx, log, secret)
}

// writeCA writes a new CA into the Secret, which is nil if it does not exist. The event of the write schedules the next
// pass, also if another replica created the Secret. It returns a conflict if another replica has changed the Secret.
func (r *bundleReconciler) writeCA(
	ctx context.Context, log logr.Logger, secret *corev1.Secret, now time.Time, reason string,
) error {
	ca, err := newSigningCA(now, r.caDuration)
	if err != nil {
		return err
	}
	data, err := ca.secretData()
	if err != nil {
		return err
	}
	secrets := r.client.CoreV1().Secrets(r.namespace)
	if secret != nil {
		secret = secret.DeepCopy()
		secret.Data = data
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	} else {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: r.secretName, Namespace: r.namespace}, Data: data}
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing the Secret %s: %w", r.secretName, err)
	}
	log.Info("Created the CA", "secret", r.secretName, "reason", reason, "expirationTime", ca.certificate.NotAfter)
	return nil
}

// reconcileOwner makes the ServiceAccount of this process the owner of the Secret.
func (r *bundleReconciler) reconcileOwner(ctx context.Context, log logr.Logger, secret *corev1.Secret) error {
	changed, err := owner.AdoptSecret(ctx, r.client, secret)
	if errors.Is(err, owner.ErrNotServiceAccount) {
		log.V(1).Info("Left the CA Secret without an owner", "secret", r.secretName, "reason", err.Error())
		return nil
	}
	if err == nil && changed {
		log.Info("Set the owner of the CA Secret", "secret", r.secretName)
	}
	return err
}
