package certs

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// dialTimeout limits the connection to the local listener, which normally takes milliseconds. It must be
// shorter than the timeout of the probe. Otherwise the kubelet never receives the error message.
const dialTimeout = 2 * time.Second

// Ready returns nil if API servers can call the webhooks: a certificate is loaded, the caBundle of every
// webhook in the cluster contains its CA, and the local listener responds with a trusted certificate.
// Ready uses the cache of a watch and makes no API request, so an unavailable API server does not change
// the result.
//
// Ready is a healthz.Checker for the readiness probe. The documentation of the package explains why the
// liveness probe must not use it.
func (s *Source) Ready(r *http.Request) error {
	leaf, err := s.servingCertificate()
	if err != nil {
		// The reason for the missing certificate is more useful than the fact that it is missing.
		if _, trustErr := s.reconciler.trust.trustedRoots(); trustErr != nil {
			return fmt.Errorf("waiting for the CA bundle: %w", trustErr)
		}
		return fmt.Errorf("waiting for a serving certificate: %w", err)
	}
	if _, err := s.reconciler.trust.verifyLeaf(leaf, s.options.DNSNames[0], time.Now()); err != nil {
		return err
	}
	return s.dialListener(r)
}

// dialListener connects to the local listener as an API server does, with a new connection each time. It
// does nothing if no address is configured.
func (s *Source) dialListener(r *http.Request) error {
	if s.options.Address == "" {
		return nil
	}
	roots, err := s.reconciler.trust.trustedRoots()
	if err != nil {
		return err
	}
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: dialTimeout},
		Config:    &tls.Config{RootCAs: roots, ServerName: s.options.DNSNames[0], MinVersion: tls.VersionTLS13},
	}
	connection, err := dialer.DialContext(r.Context(), "tcp", s.options.Address)
	if err != nil {
		return fmt.Errorf("connecting to the local webhook server: %w", err)
	}
	if err := connection.Close(); err != nil {
		return fmt.Errorf("closing the connection to the local webhook server: %w", err)
	}
	return nil
}
