package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FieldManager is the field manager of the server-side apply that writes owner references.
const FieldManager = "rollcall-owner"

// ErrNotServiceAccount means that the client does not authenticate as a ServiceAccount of the namespace of
// the object, for example because Rollcall runs outside of the cluster. The object then gets no owner,
// because an owner must be in the same namespace.
var ErrNotServiceAccount = errors.New("not running as a ServiceAccount of the namespace")

// serviceAccountPrefix is the prefix of the user name of every ServiceAccount. "namespace:name" follows
// (kubernetes.io/docs/reference/access-authn-authz/authentication/#service-account-tokens).
const serviceAccountPrefix = "system:serviceaccount:"

// leaseCheckInterval is the interval at which KeepLeaseOwned applies the owner. An interval is sufficient
// if it is shorter than the usual time between the deletion of a Lease and an uninstallation.
const leaseCheckInterval = 10 * time.Minute

// retryInterval is the delay after which KeepLeaseOwned retries after an error.
const retryInterval = 10 * time.Second

// newReference returns an owner reference to the ServiceAccount that client authenticates as. The error
// wraps ErrNotServiceAccount if client does not authenticate as a ServiceAccount of the namespace.
func newReference(
	ctx context.Context, client kubernetes.Interface, namespace string,
) (*metav1ac.OwnerReferenceApplyConfiguration, error) {
	review, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a SelfSubjectReview: %w", err)
	}
	user := review.Status.UserInfo
	account, isServiceAccount := strings.CutPrefix(user.Username, serviceAccountPrefix)
	name, inNamespace := strings.CutPrefix(account, namespace+":")
	if !isServiceAccount || !inNamespace || user.UID == "" {
		return nil, fmt.Errorf("%w: user %q, namespace %q", ErrNotServiceAccount, user.Username, namespace)
	}
	return metav1ac.OwnerReference().
		WithAPIVersion("v1").WithKind("ServiceAccount").WithName(name).WithUID(types.UID(user.UID)), nil
}

// AdoptSecret makes the ServiceAccount of this process the owner of a Secret that has no owner. It reports
// whether it changed the Secret. It does not recreate a Secret that was deleted. The error is that of
// [newReference] or of the API request.
func AdoptSecret(ctx context.Context, client kubernetes.Interface, secret *corev1.Secret) (bool, error) {
	if len(secret.OwnerReferences) > 0 {
		// The garbage collector handles owners that no longer exist.
		return false, nil
	}
	reference, err := newReference(ctx, client, secret.Namespace)
	if err != nil {
		return false, err
	}
	apply := corev1ac.Secret(secret.Name, secret.Namespace).
		WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion).WithOwnerReferences(reference)
	if _, err := client.CoreV1().Secrets(secret.Namespace).Apply(ctx, apply, newApplyOptions()); err != nil {
		return false, fmt.Errorf("setting the owner of Secret %s: %w", secret.Name, err)
	}
	return true, nil
}

// adoptLease makes the ServiceAccount of this process the owner of a Lease. It creates a missing Lease
// without a holder. A Lease that already has the owner does not change. The error is that of
// [newReference] or of the API request.
func adoptLease(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	reference, err := newReference(ctx, client, namespace)
	if err != nil {
		return err
	}
	apply := coordinationv1ac.Lease(name, namespace).WithOwnerReferences(reference)
	if _, err := client.CoordinationV1().Leases(namespace).Apply(ctx, apply, newApplyOptions()); err != nil {
		return fmt.Errorf("setting the owner of Lease %s: %w", name, err)
	}
	return nil
}

// KeepLeaseOwned calls adoptLease now and every ten minutes. A repetition is necessary because the leader
// election recreates a deleted Lease without an owner. KeepLeaseOwned logs errors and retries. It
// returns nil after ctx is done. If the process does not run as a ServiceAccount, it only waits.
func KeepLeaseOwned(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	logger := log.FromContext(ctx).WithName("owner")
	for {
		wait := leaseCheckInterval
		switch err := adoptLease(ctx, client, namespace, name); {
		case errors.Is(err, ErrNotServiceAccount):
			logger.V(1).Info("Left the Lease without an owner", "lease", name, "reason", err.Error())
		case err != nil && ctx.Err() == nil:
			logger.Error(err, "Setting the owner of the Lease failed, retrying", "lease", name)
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// newApplyOptions returns options without force. Owner references are a set with the key uid, so field
// managers do not conflict.
func newApplyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: FieldManager}
}
