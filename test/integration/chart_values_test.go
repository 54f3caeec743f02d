package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestChartValues installs the chart with values that change how Rollcall runs. The package test/chart checks
// how the values are rendered.
func TestChartValues(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewWithChart(t, c, []string{
		"--set", "metrics.secure=true",
		"--set", "certificates.duration=24h,certificates.caDuration=1000h",
		"--set", "webhook.serviceAccount.name=admission,controller.serviceAccount.name=reconciler",
		"--set-json", `webhook.objectSelector={"matchExpressions":[{"key":"canary","operator":"NotIn","values":["true"]}]}`,
		"--set-json", `webhook.matchConditions=[{"name":"canary","expression":"object.metadata.name != 'canary'"}]`,
	})}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"SecureMetrics":       testSecureMetrics,
		"WebhookConditions":   testWebhookConditions,
		"ServiceAccountNames": testServiceAccountNames,
		"CertificateDuration": testCertificateDuration,
		"ValuesFiles":         testValuesFiles,
	})
}

// testSecureMetrics checks that both components serve metrics only with TLS, and only to clients with a token
// that permits the path /metrics.
func testSecureMetrics(t *testing.T, m *manager, _ string) {
	bindReader(t, m.Client)
	insecure := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is self-signed
	}}
	tokens := map[string]string{}
	for _, account := range []string{"reader", "stranger"} {
		tokens[account] = newManagerConfig(t, m.Cluster.Config(), account).BearerToken
	}
	for component, process := range map[string]*installation.Process{"webhook": m.Webhook, "controller": m.Controller} {
		url := process.MetricsURL()
		for name, tc := range map[string]struct {
			token string
			want  int
		}{
			"token that permits metrics": {token: tokens["reader"], want: http.StatusOK},
			"no token":                   {want: http.StatusUnauthorized},
			// controller-runtime does not distinguish a rejected token from a failed review.
			"token that API servers reject":      {token: "e30.e30.e30", want: http.StatusInternalServerError},
			"token that does not permit metrics": {token: tokens["stranger"], want: http.StatusForbidden},
		} {
			t.Run(component+": "+name, func(t *testing.T) {
				// A new token and a new binding take effect after a moment.
				wait.For(t, fmt.Sprintf("the code %d", tc.want), func(ctx context.Context) error {
					code, body, err := get(ctx, insecure, url, tc.token)
					if err != nil || code != tc.want {
						return fmt.Errorf("code %d: %w", code, err)
					}
					if got := strings.Contains(body, "go_goroutines"); got != (tc.want == http.StatusOK) {
						t.Errorf("code %d: the response contains metrics: %t", code, got)
					}
					return nil
				})
			})
		}
	}
}

// bindReader creates the ServiceAccounts reader and stranger. Only the first one gets the ClusterRole of the
// chart.
func bindReader(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for _, name := range []string{"reader", "stranger"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ServiceAccounts(installation.Namespace).
			Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metricsReader},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installation.Namespace, Name: "reader"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// get sends a request with a token and returns the code and the body of the response.
func get(ctx context.Context, client *http.Client, url, token string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// testWebhookConditions checks that selectors and conditions of the values exclude workloads, and that all
// others still become gangs.
func testWebhookConditions(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 2))
	m.setPodPhases(t, m.waitForPods(t, ns, "train", 2), corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
	labeled := newJob("labeled", 2)
	labeled.Labels["canary"] = "true"
	for _, job := range []string{
		m.createJob(t, ns, labeled).Annotations[gang.AnnotationInjected],
		m.createJob(t, ns, newJob("canary", 2)).Annotations[gang.AnnotationInjected],
	} {
		if job != "" {
			t.Error("the webhook injected a Job that the values exclude")
		}
	}
}

// testServiceAccountNames checks that permissions and admission policies follow the names of the
// ServiceAccounts. A policy for the default name would permit everything to the other name.
func testServiceAccountNames(t *testing.T, m *manager, ns string) {
	controller := kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), "reconciler"))
	requireDenied(t, map[string]attempt{
		"a Secret of a Service": {policy: "rollcall-manager-secrets", send: func(ctx context.Context) error {
			_, err := controller.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "token"},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
	})
}

// testCertificateDuration checks the validity of the certificate authority and of the serving certificate.
func testCertificateDuration(t *testing.T, m *manager, _ string) {
	secret, err := m.Client.CoreV1().Secrets(installation.Namespace).Get(t.Context(), "rollcall-ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		t.Fatal("the Secret contains no certificate")
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).
		DialContext(t.Context(), "tcp", m.Webhook.WebhookAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	serving := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
	// The validity starts up to an hour before the creation (certs).
	for name, c := range map[string]struct {
		certificate *x509.Certificate
		want        time.Duration
	}{
		"authority":           {certificate: authority, want: 1000 * time.Hour},
		"serving certificate": {certificate: serving, want: 24 * time.Hour},
	} {
		if got := c.certificate.NotAfter.Sub(c.certificate.NotBefore); got < c.want || got > c.want+time.Hour {
			t.Errorf("the %s is valid for %s, want %s", name, got, c.want)
		}
	}
}

// testValuesFiles checks that the API server accepts the objects of the chart with each values file in the
// folder ci. It validates the fields of Kubernetes that the schema of the values leaves open.
func testValuesFiles(t *testing.T, m *manager, ns string) {
	paths, err := filepath.Glob(filepath.Join(chartDir, "ci", "*-values.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("the folder ci contains %d values files: %v", len(paths), err)
	}
	dryRun := func(args ...string) error {
		manifests := runHelm(t, m.Cluster, append([]string{
			"template", "values", chartDir, "--namespace", ns, "--skip-tests", installation.ImageArg,
		}, args...)...)
		_, err := m.Cluster.KubectlWithInput(t.Context(), manifests,
			"apply", "--dry-run=server", "--validate=strict", "--filename", "-")
		return err
	}
	for _, path := range paths {
		if filepath.Base(path) == "cert-manager-values.yaml" {
			continue // the cluster does not serve the types of cert-manager, which TestCertManager runs
		}
		if err := dryRun("--values", path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for value, want := range map[string]string{
		"podSecurityContext.runAsRoot=false":        `unknown field "spec.template.spec.securityContext.runAsRoot"`,
		"webhook.resources.limit.memory=1Gi":        `unknown field "spec.template.spec.containers[0].resources.limit"`,
		"topologySpreadConstraints[0].maxScrew=1":   "maxScrew",
		"dnsConfig.nameserver=192.0.2.1":            `unknown field "spec.template.spec.dnsConfig.nameserver"`,
		"securityContext.readOnlyRootFileSystem=no": "readOnlyRootFileSystem",
	} {
		if err := dryRun("--set", value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", value, err, want)
		}
	}
}
