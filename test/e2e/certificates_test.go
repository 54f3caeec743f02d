package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// tlsSecret is the Secret that cert-manager writes for the default name of the release.
const tlsSecret = installation.Release + "-tls"

// TestCertManager takes the certificate from cert-manager, and then from a Secret that somebody else
// writes. Admission works in each mode, and after cert-manager has renewed the certificate.
func TestCertManager(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	ns := s.createNamespace(t)
	if err := s.StartCertManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.removeCertManagerObjects(t) })
	s.replaceRelease(t, "--set=certificates.mode=cert-manager")
	t.Run("cert-manager issues the certificate", func(t *testing.T) {
		s.waitForAdmission(t, ns)
		if out, err := s.Kubectl(t.Context(), "auth", "can-i", "patch", "mutatingwebhookconfigurations",
			"--as="+installation.WebhookUser); err == nil {
			t.Errorf("the webhook can change webhook configurations: %s", out)
		}
	})
	first := s.readTLSSecret(t)
	t.Run("cert-manager renews the certificate without a failed request", func(t *testing.T) {
		// This is what "cmctl renew" does.
		s.renewCertificate(t)
		wait.For(t, "a new certificate", func(context.Context) error {
			s.admitJob(t, ns)
			if string(s.readTLSSecret(t).Data[corev1.TLSCertKey]) == string(first.Data[corev1.TLSCertKey]) {
				return fmt.Errorf("the certificate is the first one")
			}
			return nil
		})
		s.admitJob(t, ns)
	})
	t.Run("somebody else provides the certificate", func(t *testing.T) {
		issued := s.readTLSSecret(t)
		provided := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "provided", Namespace: installation.Namespace},
			Type:       corev1.SecretTypeTLS,
			Data: map[string][]byte{
				corev1.TLSCertKey:       issued.Data[corev1.TLSCertKey],
				corev1.TLSPrivateKeyKey: issued.Data[corev1.TLSPrivateKeyKey],
			},
		}
		secrets := s.client.CoreV1().Secrets(installation.Namespace)
		if _, err := secrets.Create(t.Context(), provided, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.replaceRelease(t, "--set=certificates.mode=secret", "--set=certificates.secretName=provided",
			"--set-string=certificates.caBundle="+string(issued.Data["ca.crt"]))
		s.waitForAdmission(t, ns)
	})
}

// removeCertManagerObjects deletes what an uninstalled release does not: the Secrets of cert-manager and of
// somebody else, and the kinds of cert-manager.
func (s *testCluster) removeCertManagerObjects(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"secret", "--namespace", installation.Namespace, "provided", tlsSecret, tlsSecret + "-ca"},
		{"customresourcedefinition", "certificates.cert-manager.io", "certificaterequests.cert-manager.io",
			"issuers.cert-manager.io", "clusterissuers.cert-manager.io",
			"orders.acme.cert-manager.io", "challenges.acme.cert-manager.io"},
	} {
		args = append([]string{"delete", "--ignore-not-found"}, args...)
		if _, err := s.Kubectl(context.Background(), args...); err != nil {
			t.Error(err)
		}
	}
}

// replaceRelease installs the chart with further arguments of helm. The end of the test installs it as
// before.
func (s *testCluster) replaceRelease(t *testing.T, args ...string) {
	t.Helper()
	s.uninstallChart(t)
	if err := s.installChart(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
}

func (s *testCluster) readTLSSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := s.client.CoreV1().Secrets(installation.Namespace).Get(t.Context(), tlsSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// waitForAdmission waits until a Job is admitted. cainjector writes the CA bundles after the installation.
func (s *testCluster) waitForAdmission(t *testing.T, ns string) {
	t.Helper()
	wait.For(t, "an admitted Job", func(ctx context.Context) error { return dryRunJob(ctx, s.client, ns) })
}

// admitJob fails the test if a Job is not admitted at once.
func (s *testCluster) admitJob(t *testing.T, ns string) {
	t.Helper()
	if err := dryRunJob(t.Context(), s.client, ns); err != nil {
		t.Error(err)
	}
}

func dryRunJob(ctx context.Context, client kubernetes.Interface, ns string) error {
	created, err := client.BatchV1().Jobs(ns).Create(ctx, newLabeledJob(), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll},
	})
	if err != nil {
		return err
	}
	if created.Annotations[gang.AnnotationInjected] == "" {
		return fmt.Errorf("the Job was not injected")
	}
	return nil
}

// renewCertificate sets the condition Issuing on the Certificate.
func (s *testCluster) renewCertificate(t *testing.T) {
	t.Helper()
	condition := map[string]string{
		"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "test",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}
	text, err := s.Kubectl(t.Context(), "--namespace", installation.Namespace, "get", "certificate", tlsSecret,
		"--output=jsonpath={.status.conditions}")
	if err != nil {
		t.Fatal(err)
	}
	var conditions []any
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &conditions); err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": append(conditions, condition)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(t.Context(), "--namespace", installation.Namespace, "patch", "certificate", tlsSecret,
		"--subresource=status", "--type=merge", "--patch="+string(patch)); err != nil {
		t.Fatal(err)
	}
}
