package certs

import (
	"crypto/tls"
	"testing"
	"time"
)

// newSigningTestCA returns a CA that is valid for a year from a time.
func newSigningTestCA(t *testing.T, created time.Time) signingCA {
	t.Helper()
	ca, err := newSigningCA(created, DefaultCADuration)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestRenew checks when a replica serves a new certificate, and why it does not serve one yet.
func TestRenew(t *testing.T) {
	now := time.Now()
	former, current := newSigningTestCA(t, now.AddDate(0, -1, 0)), newSigningTestCA(t, now.Add(-time.Minute))
	both, onlyFormer := encodeBundle(testCA(current), testCA(former)), encodeBundle(testCA(former))
	day := 24 * time.Hour

	for name, c := range map[string]struct {
		ca         *signingCA // nil if the Secret was not read yet
		bundle     []byte
		trustedFor time.Duration
		serving    time.Duration // age of the served certificate of the former CA; 0 if there is none
		wantNew    bool
		wantErr    string
	}{
		"no CA was read": {
			bundle: both, wantErr: "the Secret contains no CA yet",
		},
		"the first certificate of a trusted CA does not wait": {
			ca: &current, bundle: both, wantNew: true,
		},
		"a CA that is not in every bundle": {
			ca: &current, bundle: onlyFormer, wantErr: "unknown authority",
		},
		"a valid certificate of the same CA stays": {
			ca: &former, bundle: both, serving: day,
		},
		"a certificate is renewed after two thirds": {
			ca: &former, bundle: both, trustedFor: day, serving: 5 * day, wantNew: true,
		},
		"a new CA that was trusted for a minute": {
			ca: &current, bundle: both, trustedFor: time.Minute, serving: day, wantNew: true,
		},
		"a new CA that was trusted for a second": {
			ca: &current, bundle: both, trustedFor: time.Second, serving: day, wantErr: "for less than 10s",
		},
		"a new CA does not wait for an expired certificate": {
			ca: &current, bundle: both, serving: 8 * day, wantNew: true,
		},
		"an untrusted new CA waits for an expired certificate": {
			ca: &current, bundle: onlyFormer, serving: 8 * day, wantErr: "unknown authority",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &leafIssuer{
				dnsNames: []string{testDNSName}, validity: DefaultLeafDuration, propagationDelay: maxPropagationDelay,
				trust: newTrustTracker("mutating"),
			}
			l.trust.recordConfig("mutating", newConfigState(c.bundle), now.Add(-c.trustedFor))
			var served *tls.Certificate
			if c.serving > 0 {
				var err error
				if served, err = former.issueLeaf(l.dnsNames, now.Add(-c.serving), l.validity); err != nil {
					t.Fatal(err)
				}
				l.serving.Store(served)
				l.issuer = former.certificate
			}
			l.ca.Store(c.ca)
			renewed, err := l.renew(now)
			checkError(t, err, c.wantErr)
			if isNew := l.serving.Load() != served; renewed != c.wantNew || isNew != c.wantNew {
				t.Errorf("renew returned %t and serves a new certificate: %t, want %t", renewed, isNew, c.wantNew)
			}
			if !c.wantNew {
				return
			}
			if err := l.serving.Load().Leaf.CheckSignatureFrom(c.ca.certificate); err != nil {
				t.Errorf("the new certificate is not signed by the current CA: %v", err)
			}
			if again, err := l.renew(now); again || err != nil {
				t.Errorf("the second call renewed: %t, error %v; want nothing to do", again, err)
			}
		})
	}
}
