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
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

const (
	// keyPairMountTimeout is how long a scheduled pod may wait before the Secret is created again. The
	// Secret may have been deleted, and Rollcall cannot read it.
	keyPairMountTimeout = 20 * time.Second
	// foreignKeyPairGracePeriod is how long an existing Secret is not reported. The Secret of a deleted
	// gang of the same name disappears within seconds, when its owner has been garbage-collected.
	foreignKeyPairGracePeriod = 30 * time.Second
	// newOwnerAge is the maximum age of an owner for which this process created or observed everything.
	// A Secret that exists before such an owner's first create request is not from another manager.
	newOwnerAge = 10 * time.Second
)

// keyPairRetry determines when the Secret with the key pair of a gang is created. The zero value is due
// for the first owner.
//
// Rollcall may create Secrets but not read them. It cannot determine whether an existing Secret
// belongs to this gang, to a deleted gang of the same name that is still being garbage-collected, or to
// somebody else. It therefore repeats the create request with increasing delays, once for each owner
// and attempt, and while a pod waits for its volumes. After a restart of the manager, the retry starts
// from the beginning, which costs a rejected request.
type keyPairRetry struct {
	owner   types.UID
	attempt int32
	// created is true if this process created the Secret.
	created bool
	// nextTime is when the create request is repeated.
	nextTime time.Time
	// foreignSince is when the Secret existed before the first create request for a new owner; zero if
	// the Secret may belong to the gang.
	foreignSince time.Time
}

// forOwner returns the retry for an owner and an attempt of the gang. It starts from the beginning if
// either changed, because the Secret may have been deleted since.
func (k keyPairRetry) forOwner(owner types.UID, attempt int32) keyPairRetry {
	if k.owner == owner && k.attempt == attempt {
		return k
	}
	next := keyPairRetry{owner: owner, attempt: attempt}
	if k.owner == owner {
		next.foreignSince = k.foreignSince
	}
	return next
}

// remainingDelay returns how long to wait before the create request, or 0 if it is due.
func (k keyPairRetry) remainingDelay(now time.Time) time.Duration { return max(0, k.nextTime.Sub(now)) }

// recordCreated records that this process created the Secret at now.
func (k *keyPairRetry) recordCreated(now time.Time) {
	k.created, k.foreignSince, k.nextTime = true, time.Time{}, now.Add(keyPairMountTimeout)
}

// recordExists records that a Secret of the name exists, and returns the delay before the next create
// request. The delay depends on the age of the owner.
func (k *keyPairRetry) recordExists(now, ownerCreated time.Time) time.Duration {
	age := now.Sub(ownerCreated)
	isFirstRequest := k.nextTime.IsZero()
	if isFirstRequest && age < newOwnerAge && k.foreignSince.IsZero() {
		k.foreignSince = now
	}
	delay := retryInterval(age)
	k.nextTime = now.Add(delay)
	return delay
}

// isForeign reports whether somebody else created the Secret. reported is true if that is already in
// the status of the gang, from which a manager that was restarted learns it.
func (k keyPairRetry) isForeign(now time.Time, reported bool) bool {
	if k.created {
		return false
	}
	return reported || !k.foreignSince.IsZero() && now.Sub(k.foreignSince) >= foreignKeyPairGracePeriod
}

// ensureKeyPair creates the Secret with the key pair of the gang, which its pods mount. It retries
// until all ranks run, because they do not run without their keys, and again whenever a pod waits long
// for its volumes.
//
// The owner of the Secret is the Service of the gang, which is deleted with the last member. A gang
// that is recreated while its old Service exists keeps both Service and Secret. If the Service
// belongs to the user, the members own the Secret. service is nil if the gang has none.
func (r *Reconciler) ensureKeyPair(
	ctx context.Context, g *observedGang, next lifecycle.Phase, service *corev1.Service,
) error {
	if g.memberStates.AnySuspended() {
		return nil
	}
	owner := g.primaryMember().Meta()
	ownedByService := service != nil && service.Labels[gang.LabelGang] == g.firstResult().Gang.Name
	if ownedByService {
		owner = &service.ObjectMeta
	}
	retry, now := &g.pass.session.keyPair, r.Clock.Now()
	*retry = retry.forOwner(owner.UID, g.lastState().Attempt)
	due, err := r.isKeyPairDue(ctx, g, next, *retry)
	if !due || err != nil {
		return err
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
	retry.recordCreated(now)
	return nil
}

// isKeyPairDue reports whether the Secret must be created now. Otherwise it schedules the pass in which
// the answer may differ. A Secret that should exist is created again only if a pod waits for it.
func (r *Reconciler) isKeyPairDue(
	ctx context.Context, g *observedGang, next lifecycle.Phase, retry keyPairRetry,
) (bool, error) {
	now := r.Clock.Now()
	delay := retry.remainingDelay(now)
	isExpected := retry.created || next == lifecycle.Running
	if isExpected && retry.foreignSince.IsZero() {
		since, err := r.findPodWithoutVolumes(ctx, g)
		if err != nil || since.IsZero() {
			return false, err
		}
		if waiting := since.Add(keyPairMountTimeout).Sub(now); waiting > 0 {
			delay = waiting
		}
	}
	g.pass.requeueAfter(delay)
	return delay <= 0, nil
}

// findPodWithoutVolumes returns since when a pod of the gang waits for its volumes; zero if none does.
func (r *Reconciler) findPodWithoutVolumes(ctx context.Context, g *observedGang) (time.Time, error) {
	var first time.Time
	for _, m := range g.Members {
		pods, err := r.listPods(ctx, m.Meta().Namespace, m.Meta().UID)
		if err != nil {
			return time.Time{}, err
		}
		for i := range pods {
			if since := waitsForVolumesSince(&pods[i]); first.IsZero() || !since.IsZero() && since.Before(first) {
				first = since
			}
		}
	}
	return first, nil
}

// waitsForVolumesSince returns when a pod was scheduled whose setup container has not started; zero for other pods. The
// kubelet starts the container after it has mounted all volumes of the pod.
func waitsForVolumesSince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil || lifecycle.IsPodTerminal(pod) {
		return time.Time{}
	}
	for _, c := range pod.Status.InitContainerStatuses {
		isSetup := c.Name == ssh.SetupContainerName || c.Name == ssh.AgentSetupContainerName
		if isSetup && c.State.Waiting == nil {
			return time.Time{}
		}
	}
	return failure.FindCondition(pod, corev1.PodScheduled, corev1.ConditionTrue).LastTransitionTime.Time
}

// keyPairStatus returns the reason KeyPairConflict if somebody else created the Secret of the gang, who
// then knows the private key of its ranks; the zero value otherwise.
func (r *Reconciler) keyPairStatus(g *observedGang, next lifecycle.State) lifecycle.Status {
	first := g.firstResult()
	if first == nil || first.Children.KeyPairSecret == "" || !next.Phase.Active() {
		return lifecycle.Status{}
	}
	retry := g.pass.session.keyPair
	reported := g.primaryMember().lastStatus().Reason == gang.ReasonKeyPairConflict
	if !retry.isForeign(r.Clock.Now(), reported) {
		return lifecycle.Status{}
	}
	return lifecycle.Status{
		Reason: gang.ReasonKeyPairConflict,
		Message: fmt.Sprintf("The Secret %s existed before the gang, so somebody else knows its private key. "+
			"Delete the Secret, and Rollcall creates another one. Then delete the pods that mounted it",
			first.Children.KeyPairSecret),
	}
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
			Labels:    result.ChildLabels(),
		},
		Type:      corev1.SecretTypeSSHAuth,
		Immutable: ptr.To(true),
		Data:      map[string][]byte{ssh.PrivateKey: privateKey, ssh.PublicKey: publicKey},
	}, nil
}

// generateKeyPair returns a new private key and its public key in the formats of OpenSSH. The key is an
// ECDSA key on P-256, which FIPS 186-5 approves. Older releases of OpenSSH in FIPS mode reject Ed25519.
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
