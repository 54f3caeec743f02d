// Package owner lets what Rollcall makes for itself at run time disappear with its installation.
//
// # The idea
//
// The Secret with the CA and the Lease of the leader election are made by the running program. Whatever installed it,
// Helm or plain manifests, does not know of them and would leave them behind. Having the installer make them empty
// does not help either: one that is deleted and made again at run time no longer carries the installer's marks, and
// Helm (4.3, pkg/action/validate.go: verifyOwnershipBeforeDelete) does not delete what does not carry them.
//
// So they get an owner which the installer does delete: the ServiceAccount that the program runs as. The garbage
// collector takes away what is owned when the owner is gone, and with the account goes the program's right to make it
// again. The account is found by asking the API server who we are (a SelfSubjectReview, open to everyone by
// system:basic-user), so no name has to be configured and no right to read the account is needed.
//
// With the admission plugin OwnerReferencesPermissionEnforcement, changing an object's owners takes the right to delete
// that object.
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

// FieldManager is the name under which owner references are applied.
const FieldManager = "rollcall-owner"

// ErrNotServiceAccount says that the client is not a ServiceAccount of the object's namespace, as when Rollcall runs
// outside of the cluster. An owner has to be in the namespace of what it owns, so there is none then.
var ErrNotServiceAccount = errors.New("not running as a ServiceAccount of the namespace")

// serviceAccountPrefix is followed by "namespace:name" in the user name of every ServiceAccount (documented at
// kubernetes.io/docs/reference/access-authn-authz/authentication/#service-account-tokens).
const serviceAccountPrefix = "system:serviceaccount:"

// keepInterval is how often KeepLease looks. It only has to be shorter than a usual time between the loss of a Lease
// and an uninstallation.
const keepInterval = 10 * time.Minute

// retryInterval is how soon KeepLease tries again after an error.
const retryInterval = 10 * time.Second

// Of returns the ServiceAccount of the namespace that client authenticates as, as an owner reference, or an error that
// wraps ErrNotServiceAccount.
func Of(ctx context.Context, client kubernetes.Interface, namespace string) (*metav1ac.OwnerReferenceApplyConfiguration, error) {
	review, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for our own identity: %w", err)
	}
	user := review.Status.UserInfo
	account, isAccount := strings.CutPrefix(user.Username, serviceAccountPrefix)
	name, ours := strings.CutPrefix(account, namespace+":")
	if !isAccount || !ours || user.UID == "" {
		return nil, fmt.Errorf("%w: user %q, namespace %q", ErrNotServiceAccount, user.Username, namespace)
	}
	return metav1ac.OwnerReference().
		WithAPIVersion("v1").WithKind("ServiceAccount").WithName(name).WithUID(types.UID(user.UID)), nil
}

// AdoptSecret makes our ServiceAccount the owner of secret, if it has no owner yet, and says whether it wrote. It does
// not make a Secret that has been deleted again. Errors: those of Of and of the write.
func AdoptSecret(ctx context.Context, client kubernetes.Interface, secret *corev1.Secret) (bool, error) {
	if len(secret.OwnerReferences) > 0 {
		return false, nil // Ours, or someone's who knows better. A dead owner is the garbage collector's business.
	}
	reference, err := Of(ctx, client, secret.Namespace)
	if err != nil {
		return false, err
	}
	apply := corev1ac.Secret(secret.Name, secret.Namespace).
		WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion).WithOwnerReferences(reference)
	if _, err := client.CoreV1().Secrets(secret.Namespace).Apply(ctx, apply, applyOptions()); err != nil {
		return false, fmt.Errorf("setting the owner of Secret %s: %w", secret.Name, err)
	}
	return true, nil
}

// AdoptLease makes our ServiceAccount the owner of a Lease, and makes the Lease, held by nobody, if there is none.
// Where it already is the owner, nothing is written. Errors: those of Of and of the write.
func AdoptLease(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	reference, err := Of(ctx, client, namespace)
	if err != nil {
		return err
	}
	apply := coordinationv1ac.Lease(name, namespace).WithOwnerReferences(reference)
	if _, err := client.CoordinationV1().Leases(namespace).Apply(ctx, apply, applyOptions()); err != nil {
		return fmt.Errorf("setting the owner of Lease %s: %w", name, err)
	}
	return nil
}

// KeepLease does AdoptLease now and every ten minutes, since a Lease that is deleted to force an election is made
// again by the election, without an owner. It returns nil when ctx is done; errors are logged and tried again. Outside
// of a ServiceAccount it only waits.
func KeepLease(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	logger := log.FromContext(ctx).WithName("owner")
	for {
		wait := keepInterval
		switch err := AdoptLease(ctx, client, namespace, name); {
		case errors.Is(err, ErrNotServiceAccount):
			logger.V(1).Info("the Lease stays without an owner", "lease", name, "reason", err.Error())
		case err != nil && ctx.Err() == nil:
			logger.Error(err, "trying again", "lease", name)
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// applyOptions force nothing: owner references are a set keyed by uid, so there is nobody to conflict with.
func applyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: FieldManager}
}
