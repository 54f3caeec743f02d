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

	"rollcall.training/certs"
)

// certsInstallation is a namespace and two webhook configurations of the same name, which call a replica for each labelled
// ConfigMap of the namespace.
type certsInstallation struct {
	name   string
	config *rest.Config
	client kubernetes.Interface
}

func newCertsInstallation(t *testing.T, config *rest.Config) *certsInstallation {
	t.Helper()
	config.QPS = -1 // Calls are made as fast as they are answered.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "certs-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &certsInstallation{name: namespace.Name, config: config, client: client}
}

// certsReplica is a webhook server with its certificate source.
type certsReplica struct {
	source     *certs.Source
	address    string
	handshakes *atomic.Int64
	stop       func()
}

// startReplica starts a source, and a server which admits everything and wants a new connection for each call.
func (in *certsInstallation) startReplica(t *testing.T) *certsReplica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	source, err := certs.New(certs.Options{
		RESTConfig:              in.config,
		Namespace:               in.name,
		SecretName:              caSecret,
		DNSNames:                []string{"localhost"},
		MutatingConfiguration:   in.name,
		ValidatingConfiguration: in.name,
		Address:                 listener.Addr().String(),
		LeafDuration:            shortLeaf,
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
		Handler: http.HandlerFunc(admitAll), TLSConfig: serverTLS, ReadHeaderTimeout: patience,
		ErrorLog: log.New(io.Discard, "", 0), // Refused handshakes are seen by those who refuse.
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

// admitAll is a webhook that allows everything.
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

func (r *certsReplica) ready(t *testing.T) error {
	return r.source.Ready(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
}

func (in *certsInstallation) createConfigurations(t *testing.T, r *certsReplica) {
	t.Helper()
	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: in.name}}
	for i := range webhooksEach {
		configuration.Webhooks = append(configuration.Webhooks, admissionv1.MutatingWebhook{
			Name:                    fmt.Sprintf("mutate%d.certs.test", i),
			ClientConfig:            r.clientConfig(),
			Rules:                   configMapRules(),
			NamespaceSelector:       in.selector(),
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	api := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), in.name, metav1.DeleteOptions{}) })
	in.createValidating(t, r)
}

func (in *certsInstallation) createValidating(t *testing.T, r *certsReplica) {
	t.Helper()
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: in.name}}
	for i := range webhooksEach {
		configuration.Webhooks = append(configuration.Webhooks, admissionv1.ValidatingWebhook{
			Name:                    fmt.Sprintf("validate%d.certs.test", i),
			ClientConfig:            r.clientConfig(),
			Rules:                   configMapRules(),
			NamespaceSelector:       in.selector(),
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

// clientConfig is how the API server reaches the replica.
func (r *certsReplica) clientConfig() admissionv1.WebhookClientConfig {
	_, port, _ := net.SplitHostPort(r.address)
	return admissionv1.WebhookClientConfig{URL: new("https://localhost:" + port + "/")}
}

func (in *certsInstallation) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: in.name}}
}

func configMapRules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
}

// call makes the API server call all webhooks of the configurations, whose failurePolicy is the default: Fail.
func (in *certsInstallation) call(ctx context.Context) error {
	_, err := in.client.CoreV1().ConfigMaps(in.name).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "call-"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// callAllTheTime makes calls until the returned function is called, which returns what became of them.
func (in *certsInstallation) callAllTheTime(t *testing.T) func() (calls int, failures []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calls int
	var failures []error
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := in.call(ctx); err != nil && ctx.Err() == nil {
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

// ca returns the CA in the Secret.
func (in *certsInstallation) ca(ctx context.Context) ([]byte, error) {
	secret, err := in.client.CoreV1().Secrets(in.name).Get(ctx, caSecret, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(secret.Data["ca.crt"]) == 0 {
		return nil, errors.New("the Secret is empty")
	}
	return secret.Data["ca.crt"], nil
}

// rotate deletes the CA and returns the one that takes its place.
func (in *certsInstallation) rotate(t *testing.T, former []byte) (present []byte) {
	t.Helper()
	if err := in.client.CoreV1().Secrets(in.name).Delete(t.Context(), caSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new CA", func(ctx context.Context) (err error) {
		present, err = in.ca(ctx)
		if err == nil && bytes.Equal(present, former) {
			return errors.New("still the former one")
		}
		return err
	})
	return present
}

// bundles returns the bundle of each webhook of both configurations, as far as they exist.
func (in *certsInstallation) bundles(t *testing.T) map[string][]byte {
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
	if len(bundles) != 2*webhooksEach {
		t.Fatalf("%d webhooks, want %d", len(bundles), 2*webhooksEach)
	}
	return bundles
}

// generation counts the changes of the mutating configuration.
func (in *certsInstallation) generation(t *testing.T) int64 {
	t.Helper()
	mutating, err := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(t.Context(), in.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return mutating.Generation
}

// updateMutating changes the mutating configuration as a user does, without server-side apply.
func (in *certsInstallation) updateMutating(t *testing.T, change func(*admissionv1.MutatingWebhookConfiguration)) {
	t.Helper()
	api := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	eventually(t, "the update", func(ctx context.Context) error {
		mutating, err := api.Get(ctx, in.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(mutating)
		_, err = api.Update(ctx, mutating, metav1.UpdateOptions{FieldManager: "someone"})
		return err
	})
}

// checkOwnedFields checks that of the configurations we own the bundles alone.
func (in *certsInstallation) checkOwnedFields(t *testing.T) {
	t.Helper()
	mutating, err := in.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(t.Context(), in.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"f:webhooks": map[string]any{}}
	for i := range webhooksEach {
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

func (in *certsInstallation) awaitReady(t *testing.T, r *certsReplica) {
	t.Helper()
	eventually(t, "ready", func(context.Context) error { return r.ready(t) })
}

// awaitBundles waits until each bundle is one of the wanted ones.
func (in *certsInstallation) awaitBundles(t *testing.T, wanted ...[]byte) {
	t.Helper()
	eventually(t, "the bundle", func(context.Context) error {
		for name, bundle := range in.bundles(t) {
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

// awaitServed waits until the replica's certificate is one of the CA.
func (in *certsInstallation) awaitServed(t *testing.T, r *certsReplica, ca []byte) {
	t.Helper()
	block, _ := pem.Decode(ca)
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	eventually(t, "a certificate of the new CA", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "localhost"}}
		connection, err := dialer.DialContext(ctx, "tcp", r.address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
