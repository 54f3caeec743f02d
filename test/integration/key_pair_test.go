package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cryptossh "golang.org/x/crypto/ssh"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/injectors/ssh"
	"rollcall.training/test/wait"
)

// testKeyPair checks that the manager creates the Secret once, with a matching pair of keys.
func testKeyPair(t *testing.T, m *manager, ns string) {
	var secret *corev1.Secret
	wait.For(t, "the Secret", func(ctx context.Context) (err error) {
		secret, err = m.Client.CoreV1().Secrets(ns).Get(ctx, "train-rollcall-ssh", metav1.GetOptions{})
		return err
	})
	if secret.Type != corev1.SecretTypeSSHAuth || !ptr.Deref(secret.Immutable, false) {
		t.Errorf("type %s, immutable %v", secret.Type, ptr.Deref(secret.Immutable, false))
	}
	service := m.waitForService(t, ns, "train")
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "train", UID: service.UID}}
	if diff := cmp.Diff(want, secret.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if keys := slices.Sorted(maps.Keys(secret.Data)); !slices.Equal(keys, []string{ssh.PrivateKey, ssh.PublicKey}) {
		t.Errorf("keys %q", keys)
	}
	private, err := cryptossh.ParsePrivateKey(secret.Data[ssh.PrivateKey])
	if err != nil {
		t.Fatalf("parsing the private key: %v", err)
	}
	public, comment, _, rest, err := cryptossh.ParseAuthorizedKey(secret.Data[ssh.PublicKey])
	if err != nil || comment != "" || len(rest) > 0 {
		t.Errorf("parsing the public key: %v, comment %q, rest %q", err, comment, rest)
	}
	if !bytes.Equal(private.PublicKey().Marshal(), public.Marshal()) || public.Type() != cryptossh.KeyAlgoECDSA256 {
		t.Errorf("the %s public key does not match the private key", public.Type())
	}
	if raw, err := cryptossh.ParseRawPrivateKey(secret.Data[ssh.PrivateKey]); err != nil ||
		raw.(*ecdsa.PrivateKey).Curve.Params().BitSize != 256 {
		t.Errorf("the private key: %v", err)
	}
}

// testKeyPairReplaced checks that the manager replaces a terminating Secret with the same name, for
// example of an earlier gang.
func testKeyPairReplaced(t *testing.T, m *manager, ns string) {
	old, err := m.Client.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "train-rollcall-ssh", Finalizers: []string{"example.com/hold"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Service", Name: "train", UID: "7b1b5f43-3c50-4b5e-9e0e-0e5a4a4a4a4a"},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.createJob(t, ns, newLauncher(2))
	m.createStatefulSet(t, ns, newWorkers(2))
	wait.For(t, "the old Secret to be terminating", func(ctx context.Context) error {
		s, err := m.Client.CoreV1().Secrets(ns).Get(ctx, old.Name, metav1.GetOptions{})
		if err == nil && s.DeletionTimestamp == nil {
			err = errors.New("it is not terminating")
		}
		return err
	})
	time.Sleep(time.Second) // gives the manager time to find the old Secret
	if _, err := m.Client.CoreV1().Secrets(ns).Patch(
		t.Context(), old.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	testKeyPair(t, m, ns)
}

// testSecretPermissions checks that the manager may create Secrets, but not read them.
func testSecretPermissions(t *testing.T, m *manager, ns string) {
	for _, verb := range []string{"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"} {
		allowed := m.isAllowed(t, authorizationv1.ResourceAttributes{
			Namespace: ns, Verb: verb, Resource: "secrets", Name: "train-rollcall-ssh"})
		if allowed != (verb == "create") {
			t.Errorf("permission to %s Secrets: %v", verb, allowed)
		}
	}
}
