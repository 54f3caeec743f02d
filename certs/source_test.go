package certs

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		"no client configuration": {
			edit:    func(o *Options) { o.RESTConfig = nil },
			wantErr: "option RESTConfig: required",
		},
		"no namespace": {
			edit:    func(o *Options) { o.Namespace = "" },
			wantErr: "option Namespace: required",
		},
		"no name of the Secret": {
			edit:    func(o *Options) { o.SecretName = "" },
			wantErr: "option SecretName: required",
		},
		"no DNS names": {
			edit:    func(o *Options) { o.DNSNames = nil },
			wantErr: "option DNSNames: required",
		},
		"no webhook configuration": {
			edit:    func(o *Options) { o.MutatingConfiguration = "" },
			wantErr: "one is required",
		},
		"a CA that can expire before its certificates": {
			edit:    func(o *Options) { o.LeafDuration, o.CADuration = time.Hour, 2*time.Hour },
			wantErr: "option CADuration: 2h0m0s must be at least three times LeafDuration (1h0m0s)",
		},
		"a negative duration": {
			edit:    func(o *Options) { o.LeafDuration = -time.Hour },
			wantErr: "option LeafDuration: -1h0m0s must not be negative",
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

// TestDemoteLogger tests which messages of cert-manager are logged.
func TestDemoteLogger(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "rollcall-ca", errors.New("modified"))
	logMessages := func(l logr.Logger) {
		l = l.WithName("source").WithValues("a", 1)
		l.Info("progress")
		l.V(1).Info("detail")
		l.Error(conflict, "conflict")
		l.Error(authority.ErrCertificateNotAvailable, "not yet")
		l.Error(errors.New("disk full"), "failure")
	}
	for name, c := range map[string]struct {
		verbosity int
		want      []string
	}{
		"the default verbosity logs only unexpected errors": {
			verbosity: 0,
			want:      []string{"failure"},
		},
		"verbosity 1 logs the default messages of cert-manager": {
			verbosity: 1,
			want:      []string{"progress", "conflict", "not yet", "failure"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			logger := funcr.New(func(_, args string) {
				for _, message := range []string{"progress", "detail", "conflict", "not yet", "failure"} {
					if strings.Contains(args, `"msg"="`+message+`"`) {
						got = append(got, message)
					}
				}
			}, funcr.Options{Verbosity: c.verbosity})
			logMessages(demoteLogger(logger))
			logMessages(demoteLogger(logr.Discard())) // has no sink and must not panic
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the messages differ (-want +got):\n%s", diff)
			}
		})
	}
}

// newProbeRequest returns a request of the kubelet.
func newProbeRequest(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
}
