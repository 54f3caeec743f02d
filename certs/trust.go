package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// fingerprint identifies a certificate.
type fingerprint [sha256.Size]byte

// trust is what we have seen of the API servers' side: which CAs every webhook of every configuration names, and since
// when. It is safe for concurrent use.
type trust struct {
	mu sync.RWMutex
	// configurations has an entry for each configuration that is waited for, nil until it has been observed.
	configurations map[string]*observation
	// trusted are the CAs in all bundles, and when each was first seen in all of them.
	trusted map[fingerprint]trustedCA
	// problem is why trusted is empty, nil if it is not.
	problem error
}

type trustedCA struct {
	certificate *x509.Certificate
	since       time.Time
}

// observation is one look at one configuration.
type observation struct {
	exists   bool
	webhooks []webhook
}

// newTrust returns a trust that trusts nothing until each of the named configurations has been observed.
func newTrust(configurations ...string) *trust {
	t := &trust{configurations: map[string]*observation{}}
	for _, c := range configurations {
		t.configurations[c] = nil
	}
	t.recompute(time.Time{})
	return t
}

// observe records what a configuration holds at now.
func (t *trust) observe(configuration string, o observation, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configurations[configuration] = &o
	t.recompute(now)
}

// recompute derives trusted and problem from the configurations.
func (t *trust) recompute(now time.Time) {
	former := t.trusted
	t.trusted, t.problem = nil, nil
	first := true
	for name, o := range t.configurations {
		switch {
		case o == nil:
			t.problem = fmt.Errorf("%s: not read yet", name)
		case !o.exists:
			t.problem = fmt.Errorf("%s: does not exist", name)
		case len(o.webhooks) == 0:
			t.problem = fmt.Errorf("%s: has no webhooks", name)
		}
		if t.problem != nil {
			t.trusted = nil
			return
		}
		for _, w := range o.webhooks {
			t.intersect(w.bundle, first, former, now)
			first = false
		}
	}
	if len(t.trusted) == 0 {
		t.problem = errors.New("no CA is in the caBundle of every webhook")
	}
}

// intersect leaves in trusted what bundle holds too; the first bundle is taken as it is.
func (t *trust) intersect(bundle []byte, first bool, former map[fingerprint]trustedCA, now time.Time) {
	cas, _ := authorities(bundle, now)
	both := map[fingerprint]trustedCA{}
	for _, ca := range cas {
		id := fingerprint(sha256.Sum256(ca.Raw))
		if _, ok := t.trusted[id]; !ok && !first {
			continue
		}
		both[id] = trustedCA{certificate: ca, since: now}
		if f, ok := former[id]; ok {
			both[id] = f
		}
	}
	t.trusted = both
}

// verify returns since when API servers that call dnsName can have trusted leaf, or why they do not.
func (t *trust) verify(leaf *x509.Certificate, dnsName string, now time.Time) (since time.Time, err error) {
	roots, err := t.roots()
	if err != nil {
		return time.Time{}, err
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		DNSName:     dnsName,
		Roots:       roots,
		CurrentTime: now,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("verifying the serving certificate by the caBundle of every webhook: %w", err)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, chain := range chains {
		root := chain[len(chain)-1]
		if ca, ok := t.trusted[sha256.Sum256(root.Raw)]; ok && (since.IsZero() || ca.since.Before(since)) {
			since = ca.since
		}
	}
	if since.IsZero() {
		return time.Time{}, errors.New("the CA of the serving certificate has just left the caBundle of a webhook")
	}
	return since, nil
}

// roots returns the CAs that are in every bundle, or why there are none.
func (t *trust) roots() (*x509.CertPool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.problem != nil {
		return nil, t.problem
	}
	pool := x509.NewCertPool()
	for _, ca := range t.trusted {
		pool.AddCert(ca.certificate)
	}
	return pool, nil
}
