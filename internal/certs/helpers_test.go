package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// testStart is the start of the validity of test certificates.
var testStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testCA is a certificate together with its key.
type testCA struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newCA returns a self-signed certificate that is valid for a year from notBefore. The functions edit can
// change its template.
func newCA(t testing.TB, name string, notBefore time.Time, edit ...func(*x509.Certificate)) testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(notBefore.Unix()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             notBefore,
		NotAfter:              notBefore.AddDate(1, 0, 0),
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	for _, change := range edit {
		change(template)
	}
	return testCA{certificate: signCertificate(t, template, template, key.Public(), key), key: key}
}

// issueLeaf returns a serving certificate for dnsName that is valid for a week from notBefore.
func (ca testCA) issueLeaf(t testing.TB, dnsName string, notBefore time.Time) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		DNSNames:     []string{dnsName},
		NotBefore:    notBefore,
		NotAfter:     notBefore.AddDate(0, 0, 7),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return signCertificate(t, template, ca.certificate, key.Public(), ca.key), key
}

func signCertificate(
	t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer,
) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// encodeBundle returns the PEM encoding of CAs, in the order of the parameters.
func encodeBundle(cas ...testCA) []byte {
	var bundle []byte
	for _, ca := range cas {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: pemTypeCertificate, Bytes: ca.certificate.Raw})...)
	}
	return bundle
}
