package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/internal/certs"
	"rollcall.training/test/wait"
)

// certsFixture is a namespace and two webhook configurations with the same name. Their webhooks
// call a replica for each labeled ConfigMap of the namespace.
type certsFixture struct {
	name   string
	config *rest.Config
	client kubernetes.Interface
}

func newCertsFixture(t *testing.T, config *rest.Config) *certsFixture {
	t.Helper()
	config.QPS = -1 // the client does not limit the rate of calls
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "certs-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &certsFixture{name: namespace.Name, config: config, client: client}
}

// certsReplica is a webhook server with its certificate source.
type certsReplica struct {
	source     *certs.Source
	address    string
	handshakes *atomic.Int64
	stop       func()
}

// startReplica starts a certificate source, and a server that allows every request and requires a
// new connection for each call.
func (in *certsFixture) startReplica(t *testing.T) *certsReplica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	source, err := certs.NewSource(certs.Options{
		RESTConfig:              in.config,
		Namespace:               in.name,
		SecretName:              caSecretName,
		DNSNames:                []string{"localhost"},
		MutatingConfiguration:   in.name,
		ValidatingConfiguration: in.name,
		CADuration:              certs.DefaultCADuration,
		LeafDuration:            shortLeafDuration,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &certsReplica{source: source, address: listener.Addr().String(), handshakes: &atomic.Int64{}}

	serverTLS := &tls.Config{VerifyConnection: func(tls.ConnectionState) error {
		r.handshakes.Add(1)
		return nil
	}}
	source.ConfigureTLS(serverTLS)
	server := &http.Server{
		Handler: http.HandlerFunc(admitAll), TLSConfig: serverTLS, ReadHeaderTimeout: wait.Timeout,
		ErrorLog: log.New(io.Discard, "", 0), // the client reports rejected handshakes
	}
	server.SetKeepAlivesEnabled(false)

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving: %v", err)
		}
	})
	running.Go(func() {
		if err := source.Start(ctx); err != nil {
			t.Errorf("Start(...): %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		running.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// admitAll is a webhook that allows every request.
func admitAll(w http.ResponseWriter, r *http.Request) {
	review := &admissionapi.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "not an admission review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (r *certsReplica) checkReady(t *testing.T) error {
	return r.source.Ready(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
}

func (in *certsFixture) createConfigurations(t *testing.T, r *certsReplica) {
	t.Helper()
	in.createMutatingConfiguration(t, r)
	in.createValidatingConfiguration(t, r)
}

func (in *certsFixture) createMutatingConfiguration(t *testing.T, r *certsReplica) {
	t.Helper()
	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: in.name}}
	for i := range webhooksPerConfiguration {
		configuration.Webhooks = append(configuration.Webhooks, admissionv1.MutatingWebhook{
			Name:                    fmt.Sprintf("mutate%d.certs.test", i),
			ClientConfig:            r.newWebhookClientConfig(),
			Rules:                   newConfigMapRules(),
			NamespaceSelector:       in.namespaceSelector(),
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	api := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), in.name, metav1.DeleteOptions{}) })
}

func (in *certsFixture) createValidatingConfiguration(t *testing.T, r *certsReplica) {
	t.Helper()
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: in.name}}
	for i := range webhooksPerConfiguration {
		configuration.Webhooks = append(configuration.Webhooks, admissionv1.ValidatingWebhook{
			Name:                    fmt.Sprintf("validate%d.certs.test", i),
			ClientConfig:            r.newWebhookClientConfig(),
			Rules:                   newConfigMapRules(),
			NamespaceSelector:       in.namespaceSelector(),
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	api := in.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), in.name, metav1.DeleteOptions{}) })
}

// newWebhookClientConfig returns the address of the replica for the API server.
func (r *certsReplica) newWebhookClientConfig() admissionv1.WebhookClientConfig {
	_, port, _ := net.SplitHostPort(r.address)
	return admissionv1.WebhookClientConfig{URL: new("https://localhost:" + port + "/")}
}

func (in *certsFixture) namespaceSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: in.name}}
}

func newConfigMapRules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
}

// callWebhooks makes the API server call all webhooks of the configurations. Their failurePolicy is
// the default, Fail.
func (in *certsFixture) callWebhooks(ctx context.Context) error {
	_, err := in.client.CoreV1().ConfigMaps(in.name).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "call-"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// callWebhooksContinuously calls the webhooks until the returned function is called, which returns
// the number of calls and their errors.
func (in *certsFixture) callWebhooksContinuously(t *testing.T) func() (calls int, failures []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calls int
	var failures []error
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := in.callWebhooks(ctx); err != nil && ctx.Err() == nil {
				failures = append(failures, err)
			}
			calls++
		}
	})
	return func() (int, []error) {
		cancel()
		running.Wait()
		return calls, failures
	}
}

// readCA returns the CA of the Secret.
func (in *certsFixture) readCA(ctx context.Context) ([]byte, error) {
	secret, err := in.client.CoreV1().Secrets(in.name).Get(ctx, caSecretName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(secret.Data["ca.crt"]) == 0 {
		return nil, errors.New("the Secret is empty")
	}
	return secret.Data["ca.crt"], nil
}

// rotateCA deletes the CA and returns the new CA.
func (in *certsFixture) rotateCA(t *testing.T, former []byte) (present []byte) {
	t.Helper()
	if err := in.client.CoreV1().Secrets(in.name).Delete(t.Context(), caSecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "a new CA", func(ctx context.Context) (err error) {
		present, err = in.readCA(ctx)
		if err == nil && bytes.Equal(present, former) {
			return errors.New("the CA has not changed")
		}
		return err
	})
	return present
}

// readCABundles returns the bundles of all existing webhooks of both configurations by name.
func (in *certsFixture) readCABundles(t *testing.T) map[string][]byte {
	t.Helper()
	bundles := map[string][]byte{}
	api := in.client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), in.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range mutating.Webhooks {
		bundles[w.Name] = w.ClientConfig.CABundle
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), in.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range validating.Webhooks {
		bundles[w.Name] = w.ClientConfig.CABundle
	}
	if len(bundles) != 2*webhooksPerConfiguration {
		t.Fatalf("%d webhooks, want %d", len(bundles), 2*webhooksPerConfiguration)
	}
	return bundles
}

// readMutatingGeneration returns the generation of the mutating configuration. It increases with
// each change.
func (in *certsFixture) readMutatingGeneration(t *testing.T) int64 {
	t.Helper()
	mutating, err := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(t.Context(), in.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return mutating.Generation
}

// updateMutatingConfiguration changes the mutating configuration as a user does, without
// server-side apply.
func (in *certsFixture) updateMutatingConfiguration(
	t *testing.T, change func(*admissionv1.MutatingWebhookConfiguration),
) {
	t.Helper()
	api := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	wait.For(t, "the update", func(ctx context.Context) error {
		mutating, err := api.Get(ctx, in.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(mutating)
		_, err = api.Update(ctx, mutating, metav1.UpdateOptions{FieldManager: "someone"})
		return err
	})
}

// checkOwnedFields checks that Rollcall owns only the bundles of the configurations.
func (in *certsFixture) checkOwnedFields(t *testing.T) {
	t.Helper()
	mutating, err := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(t.Context(), in.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"f:webhooks": map[string]any{}}
	for i := range webhooksPerConfiguration {
		key := fmt.Sprintf(`k:{"name":"mutate%d.certs.test"}`, i)
		want["f:webhooks"].(map[string]any)[key] = map[string]any{
			".": map[string]any{}, "f:name": map[string]any{},
			"f:clientConfig": map[string]any{"f:caBundle": map[string]any{}},
		}
	}
	for _, entry := range mutating.ManagedFields {
		if entry.Manager != certs.FieldManager {
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %s: -want, +got:\n%s", certs.FieldManager, diff)
		}
		return
	}
	t.Errorf("%s has no managed fields", certs.FieldManager)
}

func (in *certsFixture) waitUntilReady(t *testing.T, r *certsReplica) {
	t.Helper()
	wait.For(t, "ready", func(context.Context) error { return r.checkReady(t) })
}

// waitForBundles waits until each bundle is one of the wanted bundles.
func (in *certsFixture) waitForBundles(t *testing.T, wanted ...[]byte) {
	t.Helper()
	wait.For(t, "the bundle", func(context.Context) error {
		for name, bundle := range in.readCABundles(t) {
			found := false
			for _, w := range wanted {
				found = found || bytes.Equal(bundle, w)
			}
			if !found {
				return fmt.Errorf("caBundle of %s is\n%s", name, bundle)
			}
		}
		return nil
	})
}

// waitForServedCA waits until the replica's certificate is signed by the CA.
func (in *certsFixture) waitForServedCA(t *testing.T, r *certsReplica, ca []byte) {
	t.Helper()
	block, _ := pem.Decode(ca)
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	wait.For(t, "a certificate of the new CA", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "localhost"}}
		connection, err := dialer.DialContext(ctx, "tcp", r.address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
