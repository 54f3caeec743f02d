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
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/injectors/ssh"
	"rollcall.training/test/installation"
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
	ctx, secrets := t.Context(), m.Client.CoreV1().Secrets(ns)
	former, err := m.Client.CoreV1().Services(ns).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "former"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Only the controller may create the Secret.
	controller := kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName))
	old := newKeyPairSecret("train", former.Name, former.UID)
	if _, err := controller.CoreV1().Secrets(ns).Create(ctx, old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, send := range []func() error{
		func() error {
			patch := []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`)
			_, err := secrets.Patch(ctx, old.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		},
		func() error { return m.Client.CoreV1().Services(ns).Delete(ctx, former.Name, metav1.DeleteOptions{}) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
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
