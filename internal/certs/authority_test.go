package certs

import (
	"crypto/x509"
	"maps"
	"testing"
	"time"
)

// clockSkew is the difference between the clocks of an API server and of the webhook that certificates
// must tolerate in both directions.
const clockSkew = 5 * time.Minute

// verifyAt verifies a chain as an API server with a clock that shows now.
func verifyAt(ca signingCA, leaf *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	_, err := leaf.Verify(x509.VerifyOptions{
		DNSName: testDNSName, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// TestClockSkew checks that an API server whose clock is five minutes behind or ahead trusts the
// certificates at any time: right after the creation of the CA and of the certificate, and right before
// the renewal of both.
func TestClockSkew(t *testing.T) {
	created := testStart.Add(123456789 * time.Nanosecond) // certificates have a resolution of one second
	ca, err := newSigningCA(created, DefaultCADuration)
	if err != nil {
		t.Fatal(err)
	}
	for name, issued := range map[string]time.Time{
		"a certificate of a new CA":                          created,
		"the last certificate of a CA before its renewal":    renewalTime(ca.certificate),
		"a certificate that was renewed later":               created.Add(DefaultLeafDuration),
		"a certificate before a CA is renewed by its resync": renewalTime(ca.certificate).Add(resyncPeriod),
	} {
		t.Run(name, func(t *testing.T) {
			certificate, err := ca.issueLeaf([]string{testDNSName}, issued, DefaultLeafDuration)
			if err != nil {
				t.Fatal(err)
			}
			leaf := certificate.Leaf
			for moment, now := range map[string]time.Time{
				"right after the signature": issued,
				"right before the renewal":  renewalTime(leaf),
			} {
				for clock, skew := range map[string]time.Duration{"behind": -clockSkew, "equal": 0, "ahead": clockSkew} {
					if err := verifyAt(ca, leaf, now.Add(skew)); err != nil {
						t.Errorf("%s, with a clock that is %s: %v", moment, clock, err)
					}
				}
			}
			if err := verifyAt(ca, leaf, issued.Add(-2*maxBackdating)); err == nil {
				t.Error("the certificate is valid long before its signature, so the test checks nothing")
			}
		})
	}
}

// TestRenewalTime checks that backdating does not make a renewal due at once.
func TestRenewalTime(t *testing.T) {
	for name, c := range map[string]struct {
		validity, wantAfter time.Duration
	}{
		"the default validity": {
			validity:  DefaultLeafDuration,
			wantAfter: DefaultLeafDuration*2/3 - maxBackdating/3,
		},
		"a short validity": {
			validity:  30 * time.Second,
			wantAfter: 15 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ca, err := newSigningCA(testStart, c.validity)
			if err != nil {
				t.Fatal(err)
			}
			if got := renewalTime(ca.certificate).Sub(testStart); got != c.wantAfter {
				t.Errorf("the renewal is due after %s, want %s", got, c.wantAfter)
			}
		})
	}
}

func TestIssueLeaf(t *testing.T) {
	ca, err := newSigningCA(testStart, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.issueLeaf([]string{testDNSName}, testStart.Add(50*time.Minute), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if leaf := certificate.Leaf; !leaf.NotAfter.Equal(ca.certificate.NotAfter) {
		t.Errorf("the certificate expires at %s, want the expiration of its CA, %s", leaf.NotAfter, ca.certificate.NotAfter)
	}
	_, err = ca.issueLeaf([]string{testDNSName}, testStart.Add(2*time.Hour), time.Hour)
	checkError(t, err, "the CA expired at 2026-01-01T01:00:00Z")
}

func TestParseSigningCA(t *testing.T) {
	ca, err := newSigningCA(testStart, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSigningCA(testStart, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server := newCA(t, "server", testStart, func(template *x509.Certificate) { template.IsCA = false })
	data := func(ca signingCA) map[string][]byte {
		data, err := ca.secretData()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	replace := func(key string, value []byte) map[string][]byte {
		changed := maps.Clone(data(ca))
		changed[key] = value
		return changed
	}
	for name, c := range map[string]struct {
		data    map[string][]byte
		wantErr string // empty if the data is valid
	}{
		"the data of a CA":           {data: data(ca)},
		"no data":                    {wantErr: "parsing the CA and its key"},
		"different copies of the CA": {data: replace("ca.crt", data(other)["ca.crt"]), wantErr: "tls.crt and ca.crt differ"},
		"another key": {
			data: replace("tls.key", data(other)["tls.key"]), wantErr: "private key does not match",
		},
		"no key":                {data: replace("tls.key", nil), wantErr: "failed to find any PEM data in key input"},
		"a serving certificate": {data: data(signingCA(server)), wantErr: "not a CA"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseSigningCA(c.data)
			checkError(t, err, c.wantErr)
			if err == nil && !got.certificate.Equal(ca.certificate) {
				t.Error("the parsed CA differs")
			}
		})
	}
}
