package certs

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// dialTimeout is for a connection to ourselves, which takes milliseconds: longer means that we cannot answer. It has
// to be shorter than the probe's timeout for its message to be seen.
const dialTimeout = 2 * time.Second

// Ready is nil if a call by an API server can be expected to arrive: a certificate is loaded, every webhook of the
// live configurations has a caBundle that vouches for it, and our own listener answers with a certificate that the
// bundle vouches for. The configurations are known by a watch: no API call is made, and an API server that is away
// changes nothing. It is a healthz.Checker, for the readiness probe; see the package documentation for why it is not
// for the liveness probe.
func (s *Source) Ready(r *http.Request) error {
	leaf, err := s.leaf()
	if err != nil {
		// With no certificate, what holds it up is more useful to know than that there is none.
		if _, trustErr := s.keeper.trust.roots(); trustErr != nil {
			return fmt.Errorf("waiting for the CA bundle: %w", trustErr)
		}
		return fmt.Errorf("waiting for a serving certificate: %w", err)
	}
	if _, err := s.keeper.trust.verify(leaf, s.options.DNSNames[0], time.Now()); err != nil {
		return err
	}
	return s.dial(r)
}

// dial connects to our listener as an API server would, by a connection of its own each time.
func (s *Source) dial(r *http.Request) error {
	if s.options.Address == "" {
		return nil
	}
	roots, err := s.keeper.trust.roots()
	if err != nil {
		return err
	}
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: dialTimeout},
		Config:    &tls.Config{RootCAs: roots, ServerName: s.options.DNSNames[0], MinVersion: tls.VersionTLS13},
	}
	connection, err := dialer.DialContext(r.Context(), "tcp", s.options.Address)
	if err != nil {
		return fmt.Errorf("connecting to our own webhook server: %w", err)
	}
	if err := connection.Close(); err != nil {
		return fmt.Errorf("closing the connection to our own webhook server: %w", err)
	}
	return nil
}
