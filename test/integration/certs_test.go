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
)

const (
	// caSecret is the Secret with the CA in each test's namespace.
	caSecret = "rollcall-ca"
	// shortLeaf makes the wait between bundle and certificate 5 s, a sixth of it, and lets certificates be renewed
	// within a test.
	shortLeaf = 30 * time.Second
	// webhooksEach is the number of webhooks in each configuration.
	webhooksEach = 2
)

// TestCertificates runs certificate sources against a real API server, which calls their webhook servers.
func TestCertificates(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: cluster.None})
	for name, test := range map[string]func(*testing.T, *certsInstallation){
		"Bootstrap":            testBootstrap,
		"Rotation":             testRotation,
		"BundleTakenAway":      testBundleTakenAway,
		"WebhookAdded":         testWebhookAdded,
		"ConfigurationDeleted": testConfigurationDeleted,
		"TwoReplicas":          testTwoReplicas,
		"Restart":              testRestart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newCertsInstallation(t, c.Config()))
		})
	}
}

// testBootstrap starts from nothing: certificates come first, what has to trust them later.
func testBootstrap(t *testing.T, in *certsInstallation) {
	r := in.startReplica(t)
	eventually(t, "the CA", func(ctx context.Context) error {
		_, err := in.ca(ctx)
		return err
	})
	if err := r.ready(t); err == nil {
		t.Error("ready though no webhook configuration exists")
	}

	in.createConfigurations(t, r)
	in.awaitReady(t, r)
	ca, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, bundle := range in.bundles(t) {
		if diff := cmp.Diff(string(ca), string(bundle)); diff != "" {
			t.Errorf("caBundle of %s is not the CA: -want, +got:\n%s", name, diff)
		}
	}
	eventually(t, "calls of the webhooks", in.call) // the API server has to see the bundles as well
	in.checkOwnedFields(t)
}

// testRotation deletes the CA while the API server makes calls without a pause.
func testRotation(t *testing.T, in *certsInstallation) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.awaitReady(t, r)
	former, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	stop := in.callAllTheTime(t)
	present := in.rotate(t, former)
	in.awaitServed(t, r, present)
	calls, failures := stop()
	if len(failures) > 0 {
		t.Errorf("%d of %d calls failed, the first with: %v", len(failures), calls, failures[0])
	}
	if calls == 0 {
		t.Error("no calls were made")
	}
	t.Logf("%d calls, %d TLS handshakes, %d failures", calls, r.handshakes.Load(), len(failures))
	for name, bundle := range in.bundles(t) {
		if !bytes.Contains(bundle, former) || !bytes.Contains(bundle, present) {
			t.Errorf("caBundle of %s does not hold the former CA and the present one:\n%s", name, bundle)
		}
	}
	in.awaitReady(t, r)
}

// testBundleTakenAway lets someone overwrite the bundle of one webhook, and then all bundles.
func testBundleTakenAway(t *testing.T, in *certsInstallation) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.awaitReady(t, r)
	former, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	present := in.rotate(t, former)
	in.awaitBundles(t, append(bytes.Clone(present), former...), append(bytes.Clone(former), present...))

	in.updateMutating(t, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
	in.awaitBundles(t, append(bytes.Clone(present), former...), append(bytes.Clone(former), present...))

	// Who overwrites all webhooks of a configuration takes the former CA away from it, as one does when its key is lost.
	in.updateMutating(t, func(m *admissionv1.MutatingWebhookConfiguration) {
		for i := range m.Webhooks {
			m.Webhooks[i].ClientConfig.CABundle = []byte("not a bundle")
		}
	})
	eventually(t, "the present CA alone in the mutating bundles", func(context.Context) error {
		for name, bundle := range in.bundles(t) {
			if strings.HasPrefix(name, "mutate") && !bytes.Equal(bundle, present) {
				return fmt.Errorf("caBundle of %s is\n%s", name, bundle)
			}
		}
		return nil
	})
	in.awaitReady(t, r)
}

// testWebhookAdded adds a webhook to a live configuration, as the upgrade to a version of the chart that has one more does.
func testWebhookAdded(t *testing.T, in *certsInstallation) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.awaitReady(t, r)
	ca, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const added = "added.certs.test"
	in.updateMutating(t, func(m *admissionv1.MutatingWebhookConfiguration) {
		one := m.Webhooks[0].DeepCopy()
		one.Name, one.ClientConfig.CABundle = added, nil
		one.Rules = nil // none is called for a webhook that is switched off
		m.Webhooks = append(m.Webhooks, *one)
	})
	eventually(t, "the bundle of the new webhook", func(ctx context.Context) error {
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
	in.awaitReady(t, r)
}

// testConfigurationDeleted checks that a configuration which is gone, as after an uninstallation, stays gone, and that
// one which comes back gets its bundle.
func testConfigurationDeleted(t *testing.T, in *certsInstallation) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.awaitReady(t, r)
	validating := in.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if err := validating.Delete(t.Context(), in.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not ready", func(context.Context) error {
		if r.ready(t) == nil {
			return errors.New("ready without a ValidatingWebhookConfiguration")
		}
		return nil
	})

	former, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in.rotate(t, former) // Gives a reason to write.
	if _, err := validating.Get(t.Context(), in.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("getting the deleted configuration: %v, want that it is not found", err)
	}
	in.createValidating(t, r)
	in.awaitReady(t, r)
}

// testTwoReplicas checks that replicas agree: each change is written once.
func testTwoReplicas(t *testing.T, in *certsInstallation) {
	first, second := in.startReplica(t), in.startReplica(t)
	in.createConfigurations(t, first)
	in.awaitReady(t, first)
	in.awaitReady(t, second)
	former, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := in.generation(t)

	present := in.rotate(t, former)
	in.awaitServed(t, first, present)
	in.awaitServed(t, second, present)
	in.awaitReady(t, first)
	in.awaitReady(t, second)
	if after := in.generation(t); after != before+1 {
		t.Errorf("the configuration was changed %d times for one new CA", after-before)
	}
}

// testRestart checks that what a process knew of former CAs is known to the next one.
func testRestart(t *testing.T, in *certsInstallation) {
	r := in.startReplica(t)
	in.createConfigurations(t, r)
	in.awaitReady(t, r)
	former, err := in.ca(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.stop()

	if err := in.client.CoreV1().Secrets(in.name).Delete(t.Context(), caSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next := in.startReplica(t)
	eventually(t, "a new CA, and the former still in the bundles", func(ctx context.Context) error {
		present, err := in.ca(ctx)
		if err != nil {
			return err
		}
		for name, bundle := range in.bundles(t) {
			if !bytes.Contains(bundle, former) || !bytes.Contains(bundle, present) {
				return fmt.Errorf("caBundle of %s is\n%s", name, bundle)
			}
		}
		return nil
	})
	// The configurations call the port of the replica that ended; so this is about trust, not about calls.
	in.awaitReady(t, next)
}
