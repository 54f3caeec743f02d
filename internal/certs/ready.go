package certs

import (
	"fmt"
	"net/http"
	"time"
)

// Ready returns nil if API servers can call the webhooks: a certificate is loaded, and the caBundle of every
// webhook in the cluster contains its CA. The server of the webhooks must have a check of its own.
// Ready uses the cache of a watch and makes no API request, so an unavailable API server does not change
// the result.
//
// Ready is a healthz.Checker for the readiness probe. The documentation of the package explains why the
// liveness probe must not use it.
func (s *Source) Ready(*http.Request) error {
	certificate, err := s.GetCertificate(nil)
	if err != nil {
		// The reason for the missing certificate is more useful than the fact that it is missing.
		if _, trustErr := s.reconciler.trust.trustedRoots(); trustErr != nil {
			return fmt.Errorf("waiting for the CA bundle: %w", trustErr)
		}
		return fmt.Errorf("waiting for a serving certificate: %w", err)
	}
	_, err = s.reconciler.trust.verifyLeaf(certificate.Leaf, s.reconciler.leaf.dnsNames[0], time.Now())
	return err
}
