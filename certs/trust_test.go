package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const dnsName = "rollcall.rollcall-system.svc"

// look is one observation in a test.
type look struct {
	configuration string
	at            time.Time
	observation
}

// with is a configuration whose webhooks have these bundles.
func with(bundles ...[]byte) observation {
	o := observation{exists: true}
	for _, b := range bundles {
		o.webhooks = append(o.webhooks, webhook{name: "w", bundle: b})
	}
	return o
}

func TestTrustVerify(t *testing.T) {
	old, present := newCA(t, "ca", start), newCA(t, "ca", start.Add(time.Hour))
	t0 := start.Add(2 * time.Hour)
	t1, t2, now := t0.Add(time.Minute), t0.Add(2*time.Minute), t0.Add(3*time.Minute)
	leaf, _ := present.leaf(t, dnsName, t0)
	foreign, _ := present.leaf(t, "other.rollcall-system.svc", t0)
	expired, _ := present.leaf(t, dnsName, t0.AddDate(0, 0, -8))

	cases := map[string]struct {
		reason    string
		looks     []look
		leaf      *x509.Certificate
		wantSince time.Time
		wantErr   string
	}{
		"NotRead": {
			reason:  "Without a look at all configurations nothing is known.",
			looks:   []look{{"mutating", t0, with(bundleOf(present))}},
			wantErr: "validating: not read yet",
		},
		"Missing": {
			reason:  "A configuration that does not exist sends no calls here.",
			looks:   []look{{"mutating", t0, with(bundleOf(present))}, {"validating", t0, observation{}}},
			wantErr: "validating: does not exist",
		},
		"Empty": {
			reason:  "A configuration without webhooks does not either.",
			looks:   []look{{"mutating", t0, with()}, {"validating", t0, with(bundleOf(present))}},
			wantErr: "mutating: has no webhooks",
		},
		"OneWebhookWithout": {
			reason:  "One webhook without a bundle is one whose calls fail.",
			looks:   []look{{"mutating", t0, with(bundleOf(present), nil)}, {"validating", t0, with(bundleOf(present))}},
			wantErr: "no CA is in the caBundle of every webhook",
		},
		"OtherCA": {
			reason:  "A bundle with another CA does not do, though their subjects are equal.",
			looks:   []look{{"mutating", t0, with(bundleOf(old))}, {"validating", t0, with(bundleOf(present, old))}},
			wantErr: "certificate signed by unknown authority",
		},
		"SinceTheLast": {
			reason:    "Trust begins with the last bundle that gets the CA.",
			looks:     []look{{"mutating", t0, with(bundleOf(present))}, {"validating", t1, with(bundleOf(old, present))}},
			wantSince: t1,
		},
		"SinceIsKept": {
			reason: "A change of the bundle around a CA does not make the CA new.",
			looks: []look{
				{"mutating", t0, with(bundleOf(present))},
				{"validating", t0, with(bundleOf(present))},
				{"mutating", t1, with(bundleOf(present, old))},
			},
			wantSince: t0,
		},
		"SinceAfterLoss": {
			reason: "A CA that was taken away and put back is new.",
			looks: []look{
				{"mutating", t0, with(bundleOf(present))},
				{"validating", t0, with(bundleOf(present))},
				{"mutating", t1, with(nil)},
				{"mutating", t2, with(bundleOf(present))},
			},
			wantSince: t2,
		},
		"Name": {
			reason:  "A certificate for another Service is of no use.",
			looks:   []look{{"mutating", t0, with(bundleOf(present))}, {"validating", t0, with(bundleOf(present))}},
			leaf:    foreign,
			wantErr: "certificate is valid for other.rollcall-system.svc",
		},
		"Expired": {
			reason:  "Nor is one that has expired.",
			looks:   []look{{"mutating", t0, with(bundleOf(present))}, {"validating", t0, with(bundleOf(present))}},
			leaf:    expired,
			wantErr: "certificate has expired",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tr := newTrust("mutating", "validating")
			for _, l := range tc.looks {
				tr.observe(l.configuration, l.observation, l.at)
			}
			if tc.leaf == nil {
				tc.leaf = leaf
			}
			since, err := tr.verify(tc.leaf, dnsName, now)
			if !since.Equal(tc.wantSince) {
				t.Errorf("%s\nverify(...): since %s, want %s", tc.reason, since, tc.wantSince)
			}
			if got := message(err); !strings.Contains(got, tc.wantErr) || (tc.wantErr == "") != (got == "") {
				t.Errorf("%s\nverify(...): error %q, want one with %q", tc.reason, got, tc.wantErr)
			}
		})
	}
}

// fakeAuthority signs by returning a certificate that is ready.
type fakeAuthority struct {
	*authority.DynamicAuthority

	leaf *x509.Certificate
	err  error
}

func (a fakeAuthority) Sign(*x509.Certificate) (*x509.Certificate, error) { return a.leaf, a.err }

func TestGateSign(t *testing.T) {
	now := time.Now()
	old, present := newCA(t, "ca", now.Add(-time.Hour)), newCA(t, "ca", now.Add(-time.Minute))
	leaf, _ := present.leaf(t, dnsName, now.Add(-time.Second))
	errSign := errors.New("no key")

	cases := map[string]struct {
		reason  string
		bundle  []byte
		seen    time.Duration // How long ago the bundle was first seen.
		serving bool
		err     error
		want    error
	}{
		"Trusted": {
			reason: "What has been trusted for long may be served.",
			bundle: bundleOf(present, old), seen: time.Minute, serving: true,
		},
		"TooEarly": {
			reason: "While the former certificate is good, all API servers get the time to see the new CA.",
			bundle: bundleOf(present, old), seen: time.Second, serving: true,
			want: authority.ErrCertificateNotAvailable,
		},
		"NothingToLose": {
			reason: "Without a former certificate waiting has no use.",
			bundle: bundleOf(present), seen: 0,
		},
		"Untrusted": {
			reason: "What is not in the bundle is not served, not even for want of better.",
			bundle: bundleOf(old), seen: time.Minute,
			want: authority.ErrCertificateNotAvailable,
		},
		"SignError": {
			reason: "The authority's errors are passed on.",
			bundle: bundleOf(present), seen: time.Minute, err: errSign,
			want: errSign,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tr := newTrust("mutating")
			tr.observe("mutating", with(tc.bundle), now.Add(-tc.seen))
			g := &gate{
				Authority: fakeAuthority{leaf: leaf, err: tc.err},
				trust:     tr, dnsName: dnsName, settle: 10 * time.Second,
				serving: func() bool { return tc.serving },
			}
			got, err := g.Sign(&x509.Certificate{})
			if diff := cmp.Diff(tc.want, err, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s\nSign(...): -want error, +got error:\n%s", tc.reason, diff)
			}
			if (got == leaf) != (tc.want == nil) {
				t.Errorf("%s\nSign(...): got certificate %v", tc.reason, got)
			}
		})
	}
}

// keyPair is what a server needs to serve leaf.
func keyPair(t *testing.T, ca testCA, notBefore time.Time) tls.Certificate {
	t.Helper()
	leaf, key := ca.leaf(t, dnsName, notBefore)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// message is the text of an error, empty if there is none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
