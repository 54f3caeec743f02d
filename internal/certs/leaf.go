package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

// leafIssuer keeps the serving certificate of this replica. The bundle reconciler sets the CA. It is safe for
// concurrent use.
type leafIssuer struct {
	dnsNames         []string
	validity         time.Duration
	propagationDelay time.Duration
	trust            *trustTracker

	ca      atomic.Pointer[signingCA]       // nil until the Secret contains a valid CA
	serving atomic.Pointer[tls.Certificate] // nil until a certificate is issued
	issuer  *x509.Certificate               // the CA of serving; only renew uses it
}

// errNoCA is the reason why a replica has no certificate before it has read the Secret.
var errNoCA = errors.New("the Secret contains no CA yet")

// run renews the certificate until ctx is done. It compares with the wall clock in short intervals instead of setting
// a timer, because a timer does not advance while a machine is suspended.
func (l *leafIssuer) run(ctx context.Context, log logr.Logger) {
	reason := ""
	wait.UntilWithContext(ctx, func(context.Context) {
		issued, err := l.renew(time.Now())
		switch {
		case err != nil && err.Error() != reason:
			reason = err.Error()
			log.V(1).Info("Waiting for a serving certificate", "reason", reason)
		case issued:
			reason = ""
			log.Info("Issued the serving certificate", "expirationTime", l.serving.Load().Leaf.NotAfter)
		}
	}, checkInterval)
}

// renew replaces the serving certificate if its renewal is due, or if the CA has changed. It reports whether it did.
// A certificate is served only after API servers trust its CA. Until then, renew returns an error, and the former
// certificate stays.
func (l *leafIssuer) renew(now time.Time) (bool, error) {
	ca := l.ca.Load()
	if ca == nil {
		return false, errNoCA
	}
	serving := l.serving.Load()
	if serving != nil && l.issuer.Equal(ca.certificate) && now.Before(renewalTime(serving.Leaf)) {
		return false, nil
	}
	certificate, err := ca.issueLeaf(l.dnsNames, now, l.validity)
	if err != nil {
		return false, err
	}
	since, err := l.trust.verifyLeaf(certificate.Leaf, l.dnsNames[0], now)
	if err != nil {
		return false, err
	}
	isValid := serving != nil && now.Before(serving.Leaf.NotAfter)
	if isValid && now.Sub(since) < l.propagationDelay {
		return false, fmt.Errorf("the CA has been in every bundle for less than %s", l.propagationDelay)
	}
	l.serving.Store(certificate)
	l.issuer = ca.certificate
	expirationTimestamp.Set(float64(certificate.Leaf.NotAfter.Unix()))
	return true, nil
}

// issueLeaf returns a serving certificate with a new key. It is valid for a duration from now on, but not longer than
// the CA.
func (ca signingCA) issueLeaf(dnsNames []string, now time.Time, validity time.Duration) (*tls.Certificate, error) {
	if now.After(ca.certificate.NotAfter) {
		return nil, fmt.Errorf("the CA expired at %s", ca.certificate.NotAfter.Format(time.RFC3339))
	}
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of the serving certificate: %w", err)
	}
	notAfter := now.Add(validity)
	if notAfter.After(ca.certificate.NotAfter) {
		notAfter = ca.certificate.NotAfter
	}
	leaf, err := createCertificate(&x509.Certificate{
		DNSNames:              dnsNames,
		NotBefore:             startOfValidity(now, validity),
		NotAfter:              notAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}
