package controller

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	cryptossh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/lifecycle"
)

// keyPairRetry determines when the Secret with the key pair of a gang is created. The zero value is due
// for the first owner.
//
// Rollcall may create Secrets but not read them. It cannot determine whether an existing Secret
// belongs to this gang or to a deleted gang of the same name that is still being garbage-collected.
// It therefore repeats the create request with increasing delays, once for each owner and attempt.
// After a restart of the manager, the retry starts from the beginning, which costs a rejected request.
type keyPairRetry struct {
	owner   types.UID
	attempt int32
	created bool
	// nextTime is when the create request is repeated.
	nextTime time.Time
}

// forOwner returns the retry for an owner and an attempt of the gang. It starts from the beginning if
// either changed, because the Secret may have been deleted since.
func (k keyPairRetry) forOwner(owner types.UID, attempt int32) keyPairRetry {
	if k.owner == owner && k.attempt == attempt {
		return k
	}
	return keyPairRetry{owner: owner, attempt: attempt}
}

// remainingDelay returns how long to wait before the create request, or 0 if it is due. It must not be
// called after the Secret was created.
func (k keyPairRetry) remainingDelay(now time.Time) time.Duration { return max(0, k.nextTime.Sub(now)) }

// recordCreated records that this process created the Secret.
func (k *keyPairRetry) recordCreated() { k.created = true }

// recordExists records that a Secret of the name exists, and returns the delay before the next create
// request. The delay depends on the age of the owner.
func (k *keyPairRetry) recordExists(now, ownerCreated time.Time) time.Duration {
	delay := retryInterval(now.Sub(ownerCreated))
	k.nextTime = now.Add(delay)
	return delay
}

// ensureKeyPair creates the Secret with the key pair of the gang, which its pods mount. It retries
// until all ranks run, because they do not run without their keys.
//
// The owner of the Secret is the Service of the gang, which is deleted with the last member. A gang
// that is recreated while its old Service exists keeps both Service and Secret. If the Service
// belongs to the user, the members own the Secret. service is nil if the gang has none.
func (r *Reconciler) ensureKeyPair(
	ctx context.Context, g *observedGang, next lifecycle.Phase, service *corev1.Service,
) error {
	if next == lifecycle.Running || g.memberStates.AnySuspended() {
		return nil
	}
	owner := g.primaryMember().Meta()
	ownedByService := service != nil && service.Labels[gang.LabelGang] == g.firstResult().Gang.Name
	if ownedByService {
		owner = &service.ObjectMeta
	}
	retry, now := &r.sessions.forRequest(g.pass.request).keyPair, r.Clock.Now()
	*retry = retry.forOwner(owner.UID, g.lastState().Restarts)
	if retry.created {
		return nil
	}
	if delay := retry.remainingDelay(now); delay > 0 {
		g.pass.requeueAfter(delay)
		return nil
	}
	secret, err := buildKeyPairSecret(*g.firstResult())
	if err != nil {
		return fmt.Errorf("generating a key pair: %w", err)
	}
	if ownedByService {
		// Without blockOwnerDeletion, Rollcall needs no permission to update finalizers of Services.
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID,
		}}
	} else if err := r.setOwners(g, secret); err != nil {
		return err
	}
	err = r.Client.Create(ctx, secret, FieldOwner)
	switch {
	case apierrors.IsAlreadyExists(err):
		g.pass.requeueAfter(retry.recordExists(now, owner.CreationTimestamp.Time))
		return nil
	case err != nil:
		return fmt.Errorf("creating the Secret %s: %w", secret.Name, err)
	}
	retry.recordCreated()
	r.recordNormal(g.primaryMember().Workload, gang.ReasonKeyPairCreated, eventActionCreateChildren,
		"Rollcall created the Secret %s with the SSH keys of the gang", secret.Name)
	return nil
}

// buildKeyPairSecret returns the Secret with a new key pair and without an owner.
func buildKeyPairSecret(result injectors.Result) (*corev1.Secret, error) {
	privateKey, publicKey, err := generateKeyPair()
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      result.Children.KeyPairSecret,
			Namespace: result.Gang.Namespace,
			Labels: map[string]string{
				gang.LabelGang:                 result.Gang.Name,
				gang.LabelFramework:            result.Gang.Framework.Name,
				"app.kubernetes.io/managed-by": "rollcall",
			},
		},
		Type:      corev1.SecretTypeSSHAuth,
		Immutable: ptr.To(true),
		Data:      map[string][]byte{ssh.PrivateKey: privateKey, ssh.PublicKey: publicKey},
	}, nil
}

// generateKeyPair returns a new private key and its public key in the formats of OpenSSH. The key is an
// ECDSA key on P-256, which FIPS 186-5 approves. Older releases of OpenSSH in FIPS mode reject Ed25519.
// generateKeyPair makes a private key and the public key that belongs to it, in the forms
// of OpenSSH. It is an ECDSA key on P-256, which FIPS 186-5 approves: hosts that run in
// FIPS mode refuse Ed25519 in their older releases.
func generateKeyPair() (privateKey, publicKey []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating an ECDSA key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the private key: %w", err)
	}
	authorized, err := cryptossh.NewPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the public key: %w", err)
	}
	privateKey = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return privateKey, cryptossh.MarshalAuthorizedKey(authorized), nil
}
