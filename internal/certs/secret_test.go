package certs

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// newCASecret returns a Secret with a CA that was created at a time.
func newCASecret(t *testing.T, created time.Time) *corev1.Secret {
	t.Helper()
	ca, err := newSigningCA(created, DefaultCADuration)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "rollcall-ca", Namespace: "rollcall-system",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "webhook", UID: "1"}},
	}}
	if secret.Data, err = ca.secretData(); err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestReconcileSecret(t *testing.T) {
	now := time.Now()
	valid, due := newCASecret(t, now.AddDate(0, -7, 0)), newCASecret(t, now.AddDate(0, -9, 0))
	empty := &corev1.Secret{ObjectMeta: valid.ObjectMeta}

	for name, c := range map[string]struct {
		stored, cached *corev1.Secret
		wantNew        bool // whether the stored CA is a new CA afterward
	}{
		"a missing Secret is created":                       {wantNew: true},
		"an empty Secret is filled":                         {stored: empty, cached: empty, wantNew: true},
		"a valid CA stays":                                  {stored: valid, cached: valid},
		"a CA is replaced after two thirds of its validity": {stored: due, cached: due, wantNew: true},
		"a Secret of another replica stays":                 {stored: valid},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if c.stored != nil {
				objects = append(objects, c.stored.DeepCopy())
			}
			client := fake.NewClientset(objects...)
			o := newTestOptions()
			r := newBundleReconciler(client, o)
			defer r.queue.ShutDown()
			if c.cached != nil {
				if err := r.secretInformer.GetStore().Add(c.cached); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.reconcileSecret(t.Context(), logr.Discard(), now); err != nil {
				t.Fatal(err)
			}
			got, err := client.CoreV1().Secrets(o.Namespace).Get(t.Context(), o.SecretName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ca, err := parseSigningCA(got.Data)
			if err != nil {
				t.Fatal(err)
			}
			if isNew := ca.certificate.NotAfter.After(now.AddDate(0, 11, 0)); isNew != c.wantNew {
				t.Errorf("the CA expires at %s, want a new CA: %t", ca.certificate.NotAfter, c.wantNew)
			}
			// The issuer gets a CA from the cache only, which contains what API servers have stored.
			wantIssuing := c.cached == valid
			if isIssuing := r.leaf.ca.Load() != nil; isIssuing != wantIssuing {
				t.Errorf("the issuer has a CA: %t, want %t", isIssuing, wantIssuing)
			}
		})
	}
}
