package certs

import (
	"crypto/tls"
	"errors"
	"net"
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

// options are complete ones, for an API server that nobody contacts.
func options() Options {
	return Options{
		RESTConfig:            &rest.Config{Host: "https://127.0.0.1:1"},
		Namespace:             "rollcall-system",
		SecretName:            "rollcall-ca",
		DNSNames:              []string{dnsName},
		MutatingConfiguration: "rollcall",
	}
}

func TestNew(t *testing.T) {
	cases := map[string]struct {
		reason  string
		edit    func(*Options)
		wantErr string
	}{
		"Complete": {
			reason: "The options that remain have defaults.",
			edit:   func(*Options) {},
		},
		"ValidatingOnly": {
			reason: "One configuration is enough.",
			edit: func(o *Options) {
				o.MutatingConfiguration, o.ValidatingConfiguration = "", "rollcall"
			},
		},
		"NoConfig":        {"An API server is needed.", func(o *Options) { o.RESTConfig = nil }, "option RESTConfig: required"},
		"NoNamespace":     {"The Secret has to be somewhere.", func(o *Options) { o.Namespace = "" }, "option Namespace: required"},
		"NoSecret":        {"The Secret needs a name.", func(o *Options) { o.SecretName = "" }, "option SecretName: required"},
		"NoNames":         {"A certificate is for names.", func(o *Options) { o.DNSNames = nil }, "option DNSNames: required"},
		"NoConfiguration": {"Someone has to trust it.", func(o *Options) { o.MutatingConfiguration = "" }, "one is required"},
		"ShortCA": {
			reason:  "A CA renewed with a third of its life left has to outlive what it signed.",
			edit:    func(o *Options) { o.LeafDuration, o.CADuration = time.Hour, 2*time.Hour },
			wantErr: "option CADuration: 2h0m0s is less than three times LeafDuration, 1h0m0s",
		},
		"NegativeLeaf": {
			reason:  "Time goes forward.",
			edit:    func(o *Options) { o.LeafDuration = -time.Hour },
			wantErr: "option LeafDuration: -1h0m0s is negative",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.edit(&o)
			s, err := New(o)
			if got := message(err); !strings.Contains(got, tc.wantErr) || (tc.wantErr == "") != (got == "") {
				t.Fatalf("%s\nNew(...): error %q, want one with %q", tc.reason, got, tc.wantErr)
			}
			if (s == nil) != (tc.wantErr != "") {
				t.Errorf("%s\nNew(...): %v", tc.reason, s)
			}
		})
	}
}

func TestMetric(t *testing.T) {
	if _, err := New(options()); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "rollcall_certificate_expiry_seconds" {
			return
		}
	}
	t.Error("rollcall_certificate_expiry_seconds is not registered with controller-runtime's metrics")
}

func TestBeforeStart(t *testing.T) {
	s, err := New(options())
	if err != nil {
		t.Fatal(err)
	}
	if s.NeedLeaderElection() {
		t.Error("NeedLeaderElection(): a replica that is not the leader would have no certificate")
	}
	c := &tls.Config{}
	s.ConfigureTLS(c)
	if _, err := c.GetCertificate(nil); err == nil {
		t.Error("GetCertificate(...): a certificate from nowhere")
	}
	want := "waiting for the CA bundle: MutatingWebhookConfiguration rollcall: not read yet"
	if diff := cmp.Diff(want, message(s.Ready(probe(t)))); diff != "" {
		t.Errorf("Ready(...): -want, +got:\n%s", diff)
	}
}

// TestDial checks the part of readiness that is about our own listener.
func TestDial(t *testing.T) {
	now := time.Now().Add(-time.Minute)
	ours, theirs := newCA(t, "ca", now), newCA(t, "ca", now)

	cases := map[string]struct {
		reason  string
		server  testCA
		address func(listening string) string
		wantErr string
	}{
		"Answers": {
			reason: "A listener with a certificate that the bundle vouches for is ready.",
			server: ours,
		},
		"OtherCertificate": {
			reason: "A listener whose certificate the API servers would refuse is not.",
			server: theirs, wantErr: "certificate signed by unknown authority",
		},
		"Nobody": {
			reason: "Nor is one that does not listen.",
			server: ours, address: func(string) string { return closedPort(t) }, wantErr: "connection refused",
		},
		"NoAddress": {
			reason: "Without an address nothing is asked.",
			server: theirs, address: func(string) string { return "" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{keyPair(t, tc.server, now)}}
			server.StartTLS()
			defer server.Close()

			o := options()
			o.Address = server.Listener.Addr().String()
			if tc.address != nil {
				o.Address = tc.address(o.Address)
			}
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			s.keeper.trust.observe("MutatingWebhookConfiguration rollcall", with(bundleOf(ours)), time.Now())
			if got := message(s.dial(probe(t))); !strings.Contains(got, tc.wantErr) || (tc.wantErr == "") != (got == "") {
				t.Errorf("%s\ndial(...): error %q, want one with %q", tc.reason, got, tc.wantErr)
			}
		})
	}
}

// TestQuiet checks what of cert-manager's logging is seen.
func TestQuiet(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "rollcall-ca", errors.New("modified"))
	report := func(l logr.Logger) {
		l = l.WithName("source").WithValues("a", 1)
		l.Info("progress")
		l.V(1).Info("detail")
		l.Error(conflict, "lost a race")
		l.Error(authority.ErrCertificateNotAvailable, "not yet")
		l.Error(errors.New("disk full"), "trouble")
	}
	cases := map[string]struct {
		reason    string
		verbosity int
		want      []string
	}{
		"Default": {
			reason: "Only what someone has to look at.",
			want:   []string{"trouble"},
		},
		"Verbose": {
			reason: "All that cert-manager says at its own default.", verbosity: 1,
			want: []string{"progress", "lost a race", "not yet", "trouble"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			base := funcr.New(func(_, args string) {
				for _, m := range []string{"progress", "detail", "lost a race", "not yet", "trouble"} {
					if strings.Contains(args, m) {
						got = append(got, m)
					}
				}
			}, funcr.Options{Verbosity: tc.verbosity})
			report(quiet(base))
			report(quiet(logr.Discard())) // Has no sink, and must not panic.
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nquiet(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// probe is a request as the kubelet makes it.
func probe(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
