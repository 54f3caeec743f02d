package certs

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	_ manager.Runnable               = &Source{}
	_ manager.LeaderElectionRunnable = &Source{}
	_ healthz.Checker                = (&Source{}).Ready
)

// newTestOptions returns valid options. No API server listens at the address.
func newTestOptions() Options {
	return Options{
		RESTConfig:            &rest.Config{Host: "https://127.0.0.1:1"},
		Namespace:             "rollcall-system",
		CADuration:            DefaultCADuration,
		LeafDuration:          DefaultLeafDuration,
		SecretName:            "rollcall-ca",
		DNSNames:              []string{testDNSName},
		MutatingConfiguration: "rollcall",
	}
}

func TestNewSource(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*Options)
		wantErr string // empty if the options are valid
	}{
		"all required options": {
			edit: func(*Options) {},
		},
		"only a validating configuration": {
			edit: func(o *Options) { o.MutatingConfiguration, o.ValidatingConfiguration = "", "rollcall" },
		},
		"no name of the Secret": {
			edit:    func(o *Options) { o.SecretName = "" },
			wantErr: "option SecretName: required",
		},
		"no webhook configuration": {
			edit:    func(o *Options) { o.MutatingConfiguration = "" },
			wantErr: "one is required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestOptions()
			c.edit(&o)
			s, err := NewSource(o)
			checkError(t, err, c.wantErr)
			if (s == nil) != (c.wantErr != "") {
				t.Errorf("NewSource returned %v", s)
			}
		})
	}
}

func TestExpirationMetric(t *testing.T) {
	if _, err := NewSource(newTestOptions()); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "rollcall_certificate_expiration_timestamp_seconds" {
			return
		}
	}
	t.Error("the registry of controller-runtime does not contain rollcall_certificate_expiration_timestamp_seconds")
}

func TestSourceBeforeStart(t *testing.T) {
	s, err := NewSource(newTestOptions())
	if err != nil {
		t.Fatal(err)
	}
	if s.NeedLeaderElection() {
		t.Error("NeedLeaderElection() = true, but every replica needs a certificate")
	}
	config := &tls.Config{}
	s.ConfigureTLS(config)
	if _, err := config.GetCertificate(nil); err == nil {
		t.Error("GetCertificate returned no error before the source was started")
	}
	want := "waiting for the CA bundle: MutatingWebhookConfiguration rollcall: not read yet"
	if diff := cmp.Diff(want, errorMessage(s.Ready(newProbeRequest(t)))); diff != "" {
		t.Errorf("Ready returned a different error (-want +got):\n%s", diff)
	}
}

// newProbeRequest returns a request of the kubelet.
func newProbeRequest(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
}
