package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxBackdating is the time by which the validity of a certificate starts before its creation. An API
// server whose clock is behind therefore accepts a new certificate. client-go backdates self-signed
// certificates by the same time (k8s.io/client-go/util/cert/cert.go).
const maxBackdating = time.Hour

// caKey is the key of the Secret that contains the CA once more, as in the Secrets of cert-manager. Pods that mount
// the Secret of a CA expect this key.
const caKey = "ca.crt"

// startOfValidity returns the start of the validity of a certificate that is created at now and that is
// valid for a duration from then. The backdating of a certificate that is valid for a short time is half of
// that time, so that its renewal is due after two thirds of the time from now on or earlier, but not at
// once.
func startOfValidity(now time.Time, validity time.Duration) time.Time {
	return now.Add(-min(maxBackdating, validity/2))
}

// renewalTime returns the time at which a third of the complete validity of a certificate remains.
func renewalTime(certificate *x509.Certificate) time.Time {
	return certificate.NotAfter.Add(-certificate.NotAfter.Sub(certificate.NotBefore) / 3)
}

// signingCA is a CA together with its key.
type signingCA struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newSigningCA returns a CA that is valid for a duration from now on.
func newSigningCA(now time.Time, validity time.Duration) (signingCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return signingCA{}, fmt.Errorf("generating the key of the CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: caCommonName},
		NotBefore:             startOfValidity(now, validity),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	certificate, err := createCertificate(template, template, key.Public(), key)
	if err != nil {
		return signingCA{}, fmt.Errorf("signing the CA: %w", err)
	}
	return signingCA{certificate: certificate, key: key}, nil
}

// parseSigningCA returns the CA in the data of a Secret, or an error that is the reason to create a new CA.
func parseSigningCA(data map[string][]byte) (signingCA, error) {
	if !bytes.Equal(data[corev1.TLSCertKey], data[caKey]) {
		return signingCA{}, fmt.Errorf("%s and %s differ", corev1.TLSCertKey, caKey)
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return signingCA{}, fmt.Errorf("parsing the CA and its key: %w", err)
	}
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return signingCA{}, fmt.Errorf("parsing the CA: %w", err)
	}
	key, canSign := pair.PrivateKey.(crypto.Signer)
	if !certificate.IsCA || !canSign {
		return signingCA{}, fmt.Errorf("%s: not a CA", describeCertificate(certificate))
	}
	return signingCA{certificate: certificate, key: key}, nil
}

// secretData returns the data of a Secret with the CA.
func (ca signingCA) secretData() (map[string][]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of the CA: %w", err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: pemTypeCertificate, Bytes: ca.certificate.Raw})
	return map[string][]byte{
		corev1.TLSCertKey:       certificate,
		caKey:                   certificate,
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}, nil
}

// createCertificate returns the signed template with a random serial number.
func createCertificate(
	template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer,
) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
