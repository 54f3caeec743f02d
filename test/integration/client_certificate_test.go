package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// The files of an API server with a client certificate, as docs/tasks/require-client-certificates.md describes them.
// The user applies to all webhooks, because the port of the test is not known yet.
const (
	admissionConfiguration = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: DIR/kubeconfig
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: DIR/kubeconfig
`
	webhookKubeconfig = `
apiVersion: v1
kind: Config
users:
- name: "*"
  user:
    client-certificate: DIR/client.crt
    client-key: DIR/client.key
`
)

// TestClientCertificates checks that a webhook with client certificates serves its API server and nobody else.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	writeClientCertificate(t, dir)
	for name, text := range map[string]string{"admission.yaml": admissionConfiguration, "kubeconfig": webhookKubeconfig} {
		writeTestFile(t, filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)))
	}
	c := startCluster(t, cluster.Options{
		Nodes:          cluster.NoNodes,
		APIServerFlags: []string{"--admission-control-config-file=" + filepath.Join(dir, "admission.yaml")},
	})
	// The processes are ready, so the probes need no certificate.
	m := &manager{installation.NewWithClientCA(t, c, filepath.Join(dir, "client.crt"))}

	ns := m.createNamespace(t)
	job, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), newJob("train", 1), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a Job: %v", err)
	}
	if job.Annotations[gang.AnnotationInjected] == "" {
		t.Error("the Job is not injected")
	}
	if err := m.Webhook.WriteMetrics(t.Context(), io.Discard); err != nil {
		t.Errorf("reading metrics: %v", err)
	}
	anonymous := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the test does not verify the server
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, readWebhookURL(t, m).String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := anonymous.Do(request)
	if err == nil {
		response.Body.Close()
		t.Errorf("a client without a certificate got the response %s", response.Status)
	} else if !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("calling the webhook without a certificate: %v", err)
	}
}

// writeClientCertificate writes a certificate, which is its own authority, and its key.
func writeClientCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, filepath.Join(dir, "client.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	writeTestFile(t, filepath.Join(dir, "client.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func writeTestFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
