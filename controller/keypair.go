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
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/ssh"
)

// ensureKeyPair makes the Secret with the gang's key pair, which its pods mount.
//
// Rollcall may create Secrets and never read one, so it cannot look whether the one
// that exists is this gang's: it may be that of an earlier gang of the same name, which
// is taken away in the moment after its owner. So it tries again, ever more rarely,
// until it has made the Secret for this owner, or until all ranks run, which they do
// not without their keys. What a manager forgets when it starts anew is found out in
// the same way, for the price of a refused request.
//
// The owner is the gang's Service: it goes with the last member, and a gang that is
// created anew while its old Service still stands keeps both, Service and Secret.
func (r *Reconciler) ensureKeyPair(ctx context.Context, p *party, next gang.Phase, service *corev1.Service) error {
	if next == gang.Running || p.roll.HeldBack() {
		return nil
	}
	owner := p.first().Meta()
	owned := service != nil && service.Labels[gang.LabelGang] == p.lead().Gang.Name
	if owned {
		owner = &service.ObjectMeta
	}
	kept, now := r.memory.of(p.look.request), r.Clock.Now()
	switch {
	case kept.keyPairOf != owner.UID || kept.keyPairFor != p.state().Attempt: // it may have been deleted since
		kept.keyPairOf, kept.keyPairFor, kept.keyPairMade, kept.keyPairNext = owner.UID, p.state().Attempt, false, time.Time{}
	case kept.keyPairMade:
		return nil
	case now.Before(kept.keyPairNext): // a member moved in the meantime
		p.look.again(kept.keyPairNext.Sub(now))
		return nil
	}
	secret, err := keyPair(*p.lead())
	if err != nil {
		return fmt.Errorf("making a key pair: %w", err)
	}
	if owned {
		// Nothing waits for the Secret's end, so it does not block its owner's, which
		// would take the right to update the finalizers of Services.
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}}
	} else if err := r.own(p, secret); err != nil { // the user's Service stays when the gang goes
		return err
	}
	err = r.Client.Create(ctx, secret, FieldOwner)
	switch {
	case apierrors.IsAlreadyExists(err):
		wait := pace(now.Sub(owner.CreationTimestamp.Time))
		kept.keyPairNext = now.Add(wait)
		p.look.again(wait)
		return nil
	case err != nil:
		return fmt.Errorf("creating the Secret %s: %w", secret.Name, err)
	}
	kept.keyPairMade = true
	r.normal(p.first().Workload, gang.ReasonKeyPairCreated, actionMakeChildren, "Created the Secret %s with the gang's ssh keys", secret.Name)
	return nil
}

// keyPair builds the Secret, without an owner.
func keyPair(result injectors.Result) (*corev1.Secret, error) {
	private, public, err := newKeyPair()
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      result.Children.KeyPair,
			Namespace: result.Gang.Namespace,
			Labels: map[string]string{
				gang.LabelGang:                 result.Gang.Name,
				gang.LabelFramework:            result.Gang.Framework.Name,
				"app.kubernetes.io/managed-by": "rollcall",
			},
		},
		Type:      corev1.SecretTypeSSHAuth,
		Immutable: ptr.To(true),
		Data:      map[string][]byte{ssh.PrivateKey: private, ssh.PublicKey: public},
	}, nil
}

// newKeyPair makes a private key and the public key that belongs to it, in the forms
// of OpenSSH. It is an ECDSA key on P-256, which FIPS 186-5 approves: hosts that run in
// FIPS mode refuse Ed25519 in their older releases.
func newKeyPair() (private, public []byte, err error) {
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
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), cryptossh.MarshalAuthorizedKey(authorized), nil
}
