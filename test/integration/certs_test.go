package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

const (
	// caSecretName is the name of the Secret with the CA in the namespace of each test.
	caSecretName = "rollcall-ca"
	// shortLeafDuration shortens the wait between bundle and certificate, a sixth of it, to 5 s.
	// Certificates are renewed within a test.
	shortLeafDuration = 30 * time.Second
	// webhooksPerConfiguration is the number of webhooks in each configuration.
	webhooksPerConfiguration = 2
)

// TestCertificates runs certificate sources against a real API server, which calls their webhook
// servers.
func TestCertificates(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	for name, test := range map[string]func(*testing.T, *certsFixture){
		"Bootstrap":            testCertsBootstrap,
		"Rotation":             testCARotation,
		"BundleOverwritten":    testBundleOverwritten,
		"WebhookAdded":         testWebhookAdded,
		"ConfigurationDeleted": testConfigurationDeleted,
		"TwoReplicas":          testCertsTwoReplicas,
		"Restart":              testCertsSourceRestart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newCertsFixture(t, c.Config()))
		})
	}
}

// testCertsBootstrap starts without a CA and without configurations. The certificates exist before
// the configurations.
func testCertsBootstrap(t *testing.T, in *certsFixture) {
	r := in.startReplica(t)
	wait.For(t, "the CA", func(ctx context.Context) error {
		_, err := in.readCA(ctx)
		return err
	})
	if err := r.checkReady(t); err == nil {
		t.Error("ready though no webhook configuration exists")
	}

	in.createConfigurations(t, r)
	in.waitUntilReady(t, r)
	ca, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, bundle := range in.readCABundles(t) {
		if diff := cmp.Diff(string(ca), string(bundle)); diff != "" {
			t.Errorf("caBundle of %s is not the CA: -want, +got:\n%s", name, diff)
		}
	}
	wait.For(t, "calls of the webhooks", in.callWebhooks) // the API server must also observe the bundles
	in.checkOwnedFields(t)
}

// testCARotation deletes the CA while the API server calls the webhooks continuously.
func testCARotation(t *testing.T, in *certsFixture) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.waitUntilReady(t, r)
	former, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	stop := in.callWebhooksContinuously(t)
	present := in.rotateCA(t, former)
	in.waitForServedCA(t, r, present)
	calls, failures := stop()
	if len(failures) > 0 {
		t.Errorf("%d of %d calls failed, the first with: %v", len(failures), calls, failures[0])
	}
	if calls == 0 {
		t.Error("no calls were made")
	}
	t.Logf("%d calls, %d TLS handshakes, %d failures", calls, r.handshakes.Load(), len(failures))
	for name, bundle := range in.readCABundles(t) {
		if !bytes.Contains(bundle, former) || !bytes.Contains(bundle, present) {
			t.Errorf("caBundle of %s does not contain the former CA and the current CA:\n%s", name, bundle)
		}
	}
	in.waitUntilReady(t, r)
}

// testBundleOverwritten overwrites the bundle of one webhook, and then all bundles.
func testBundleOverwritten(t *testing.T, in *certsFixture) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.waitUntilReady(t, r)
	former, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	present := in.rotateCA(t, former)
	in.waitForBundles(t, append(bytes.Clone(present), former...), append(bytes.Clone(former), present...))

	in.updateMutatingConfiguration(t, func(m *admissionv1.MutatingWebhookConfiguration) {
		m.Webhooks[0].ClientConfig.CABundle = nil
	})
	in.waitForBundles(t, append(bytes.Clone(present), former...), append(bytes.Clone(former), present...))

	// Overwriting all webhooks of a configuration removes the former CA from it. Users do so if its
	// key was compromised.
	in.updateMutatingConfiguration(t, func(m *admissionv1.MutatingWebhookConfiguration) {
		for i := range m.Webhooks {
			m.Webhooks[i].ClientConfig.CABundle = []byte("not a bundle")
		}
	})
	wait.For(t, "only the current CA in the mutating bundles", func(context.Context) error {
		for name, bundle := range in.readCABundles(t) {
			if strings.HasPrefix(name, "mutate") && !bytes.Equal(bundle, present) {
				return fmt.Errorf("caBundle of %s is\n%s", name, bundle)
			}
		}
		return nil
	})
	in.waitUntilReady(t, r)
}

// testWebhookAdded adds a webhook to a live configuration, as an upgrade to a chart with one more
// webhook does.
func testWebhookAdded(t *testing.T, in *certsFixture) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.waitUntilReady(t, r)
	ca, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const added = "added.certs.test"
	in.updateMutatingConfiguration(t, func(m *admissionv1.MutatingWebhookConfiguration) {
		one := m.Webhooks[0].DeepCopy()
		one.Name, one.ClientConfig.CABundle = added, nil
		one.Rules = nil // the API server does not call a webhook without rules
		m.Webhooks = append(m.Webhooks, *one)
	})
	wait.For(t, "the bundle of the new webhook", func(ctx context.Context) error {
		m, err := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, in.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, w := range m.Webhooks {
			if !bytes.Equal(w.ClientConfig.CABundle, ca) {
				return fmt.Errorf("caBundle of %s is\n%s", w.Name, w.ClientConfig.CABundle)
			}
		}
		return nil
	})
	in.waitUntilReady(t, r)
}

// testConfigurationDeleted deletes each configuration, as somebody may do by accident. The webhooks of the
// other configuration must not be affected. Rollcall does not recreate the configuration, because it may
// have been uninstalled. A recreated configuration gets its bundle at once.
func testConfigurationDeleted(t *testing.T, in *certsFixture) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.waitUntilReady(t, r)
	api := in.client.AdmissionregistrationV1()
	in.deleteConfiguration(t, r, api.ValidatingWebhookConfigurations().Delete, in.createValidatingConfiguration)
	in.deleteConfiguration(t, r, api.MutatingWebhookConfigurations().Delete, in.createMutatingConfiguration)
}

// deleteConfiguration deletes one configuration while the CA changes, and creates it again.
func (in *certsFixture) deleteConfiguration(
	t *testing.T, r *certsReplica,
	remove func(context.Context, string, metav1.DeleteOptions) error, create func(*testing.T, *certsReplica),
) {
	t.Helper()
	wait.For(t, "calls of the webhooks", in.callWebhooks)
	former, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := in.callWebhooksContinuously(t)
	if err := remove(t.Context(), in.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	present := in.rotateCA(t, former)
	in.waitForServedCA(t, r, present) // only if the deleted configuration does not have to trust the CA
	if err := r.checkReady(t); err != nil {
		t.Errorf("not ready without one configuration: %v", err)
	}
	calls, failures := stop()
	if len(failures) > 0 || calls == 0 {
		t.Errorf("%d of %d calls failed: %v", len(failures), calls, errors.Join(failures...))
	}
	if err := remove(t.Context(), in.name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleting the deleted configuration: %v, want a NotFound error", err)
	}
	begin := time.Now()
	create(t, r)
	wait.For(t, "calls of the webhooks", in.callWebhooks)
	t.Logf("%d calls without the configuration, and the first call %s after its recreation",
		calls, time.Since(begin).Round(time.Millisecond))
	in.waitUntilReady(t, r)
}

// testCertsTwoReplicas checks that two replicas write each change only once.
func testCertsTwoReplicas(t *testing.T, in *certsFixture) {
	first, second := in.startReplica(t), in.startReplica(t)
	in.createConfigurations(t, first)
	in.waitUntilReady(t, first)
	in.waitUntilReady(t, second)
	former, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := in.readMutatingGeneration(t)

	present := in.rotateCA(t, former)
	in.waitForServedCA(t, first, present)
	in.waitForServedCA(t, second, present)
	in.waitUntilReady(t, first)
	in.waitUntilReady(t, second)
	if after := in.readMutatingGeneration(t); after != before+1 {
		t.Errorf("the configuration was changed %d times for one new CA", after-before)
	}
}

// testCertsSourceRestart checks that a new process keeps the former CAs of its predecessor in the
// bundles.
func testCertsSourceRestart(t *testing.T, in *certsFixture) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.waitUntilReady(t, r)
	former, err := in.readCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.stop()

	if err := in.client.CoreV1().Secrets(in.name).Delete(t.Context(), caSecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next := in.startReplica(t)
	wait.For(t, "a new CA, and the former CA in the bundles", func(ctx context.Context) error {
		present, err := in.readCA(ctx)
		if err != nil {
			return err
		}
		for name, bundle := range in.readCABundles(t) {
			if !bytes.Contains(bundle, former) || !bytes.Contains(bundle, present) {
				return fmt.Errorf("caBundle of %s is\n%s", name, bundle)
			}
		}
		return nil
	})
	// The configurations call the port of the stopped replica, so this checks trust and not calls.
	in.waitUntilReady(t, next)
}
