package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// fingerprint is the SHA-256 hash of a certificate in DER form.
type fingerprint [sha256.Size]byte

// trustTracker tracks the CAs that are in the caBundle of every webhook of every existing configuration, and
// the time since when they are. It is safe for concurrent use.
type trustTracker struct {
	mu sync.RWMutex
	// configStates contains the last observed state of each configuration, nil before the first
	// observation.
	configStates map[string]*configState
	// trusted are the CAs that are in every bundle.
	trusted map[fingerprint]trustedCA
	// trustErr is the reason why trusted is empty. It is nil if trusted is not empty.
	trustErr error
}

// trustedCA is a CA that is in every bundle.
type trustedCA struct {
	certificate *x509.Certificate
	// trustedSince is the time at which the CA was first observed in every bundle.
	trustedSince time.Time
}

// configState is the observed state of a webhook configuration.
type configState struct {
	exists   bool
	webhooks []configuredWebhook
}

// newTrustTracker returns a tracker that trusts no CA until all of the named configurations are observed.
func newTrustTracker(configurations ...string) *trustTracker {
	t := &trustTracker{configStates: map[string]*configState{}}
	for _, c := range configurations {
		t.configStates[c] = nil
	}
	t.recomputeTrusted(time.Time{})
	return t
}

// recordConfig records the state of a configuration that was observed at now.
func (t *trustTracker) recordConfig(configuration string, state configState, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configStates[configuration] = &state
	t.recomputeTrusted(now)
}

// recomputeTrusted derives trusted and trustErr from configStates. A CA that was trusted before keeps its
// time. The caller must hold mu.
func (t *trustTracker) recomputeTrusted(now time.Time) {
	former := t.trusted
	t.trusted = nil
	bundles, err := t.allBundles()
	if err != nil {
		t.trustErr = err
		return
	}
	trusted := parseTrusted(bundles[0], now)
	for _, bundle := range bundles[1:] {
		other := parseTrusted(bundle, now)
		maps.DeleteFunc(trusted, func(id fingerprint, _ trustedCA) bool {
			_, ok := other[id]
			return !ok
		})
	}
	if len(trusted) == 0 {
		t.trustErr = errors.New("no CA is in the caBundle of every webhook")
		return
	}
	for id := range trusted {
		if ca, ok := former[id]; ok {
			trusted[id] = ca
		}
	}
	t.trusted, t.trustErr = trusted, nil
}

// allBundles returns the caBundles of all webhooks, at least one. It returns an error if a configuration
// was not observed, if none exists, or if one has no webhooks. It ignores a configuration that does not
// exist, because API servers do not call its webhooks. The accidental deletion of one configuration must
// not affect the webhooks of the other one.
func (t *trustTracker) allBundles() ([][]byte, error) {
	var bundles [][]byte
	var missing []string
	for name, state := range t.configStates {
		switch {
		case state == nil:
			return nil, fmt.Errorf("%s: not read yet", name)
		case !state.exists:
			missing = append(missing, name)
		case len(state.webhooks) == 0:
			return nil, fmt.Errorf("%s: has no webhooks", name)
		}
		for _, w := range state.webhooks {
			bundles = append(bundles, w.caBundle)
		}
	}
	if len(bundles) == 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("%s: does not exist", strings.Join(missing, ", "))
	}
	return bundles, nil
}

// parseTrusted returns the valid CAs of a bundle, trusted since now.
func parseTrusted(bundle []byte, now time.Time) map[fingerprint]trustedCA {
	cas, _ := parseAuthorities(bundle, now)
	trusted := map[fingerprint]trustedCA{}
	for _, ca := range cas {
		trusted[sha256.Sum256(ca.Raw)] = trustedCA{certificate: ca, trustedSince: now}
	}
	return trusted
}

// verifyLeaf returns the time since when API servers that call dnsName can trust leaf. It returns an error
// if they do not trust leaf.
func (t *trustTracker) verifyLeaf(leaf *x509.Certificate, dnsName string, now time.Time) (since time.Time, err error) {
	trusted, err := t.trustedCAs()
	if err != nil {
		return time.Time{}, err
	}
	roots := x509.NewCertPool()
	for _, ca := range trusted {
		roots.AddCert(ca.certificate)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		DNSName:     dnsName,
		Roots:       roots,
		CurrentTime: now,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("verifying the serving certificate with the caBundle of every webhook: %w", err)
	}
	for _, chain := range chains {
		root := trusted[sha256.Sum256(chain[len(chain)-1].Raw)]
		if since.IsZero() || root.trustedSince.Before(since) {
			since = root.trustedSince
		}
	}
	return since, nil
}

// trustedCAs returns the CAs that are in every bundle, or an error if there is no such CA. The map never changes.
func (t *trustTracker) trustedCAs() (map[fingerprint]trustedCA, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.trusted, t.trustErr
}
