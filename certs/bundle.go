package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

// maxAuthorities is the most CAs that a bundle keeps. Renewal at two thirds of a CA's life leaves two alive at a time;
// the rest is for Secrets that are deleted again and again, which must not let a bundle (under 1 KiB for each CA, once
// for each webhook) grow towards the 1.5 MiB that etcd accepts for one object.
const maxAuthorities = 8

const pemCertificate = "CERTIFICATE"

// merge returns the PEM bundle that vouches for the current CA and for all in existing that can still be needed, and
// says of each thing which it left out why it did.
//
// The result is in canonical order, the newest first, without duplicates: it depends on the set of certificates in its
// input and not on their order, so that replicas which merge the same sets agree to the byte. Left out are what is not
// a certificate, what is not a CA, what has expired at now, and the oldest beyond maxAuthorities. The current CA is
// never left out for its age. The result is empty when nothing remains.
func merge(current, existing []byte, now time.Time) (bundle []byte, dropped []string) {
	keep, dropped := authorities(current, now)
	isCurrent := map[string]bool{}
	for _, c := range keep {
		isCurrent[string(c.Raw)] = true
	}

	former, more := authorities(existing, now)
	dropped = append(dropped, more...)
	keep = append(keep, former...)

	slices.SortFunc(keep, newestFirst)
	keep = slices.CompactFunc(keep, (*x509.Certificate).Equal)
	for i := len(keep) - 1; i >= 0 && len(keep) > maxAuthorities; i-- {
		if !isCurrent[string(keep[i].Raw)] {
			dropped = append(dropped, describe(keep[i])+": too many authorities")
			keep = slices.Delete(keep, i, i+1)
		}
	}

	for _, c := range keep {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})...)
	}
	return bundle, dropped
}

// authorities returns the CAs in a PEM bundle which are valid at now or later, in the bundle's order, and says of all
// else why it is not among them.
func authorities(bundle []byte, now time.Time) (cas []*x509.Certificate, dropped []string) {
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		ca, reason := usable(block, now)
		if reason != "" {
			dropped = append(dropped, reason)
			continue
		}
		cas = append(cas, ca)
	}
	if rest := bytes.TrimSpace(bundle); len(rest) > 0 {
		dropped = append(dropped, fmt.Sprintf("%d bytes: not PEM", len(rest)))
	}
	return cas, dropped
}

// usable returns the CA in a PEM block, or the reason why it must not be kept.
func usable(block *pem.Block, now time.Time) (ca *x509.Certificate, reason string) {
	if block.Type != pemCertificate {
		return nil, fmt.Sprintf("PEM block %q: not a certificate", block.Type)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("certificate: %v", err)
	case !ca.IsCA:
		return nil, describe(ca) + ": not a CA"
	case now.After(ca.NotAfter):
		return nil, describe(ca) + ": expired at " + ca.NotAfter.Format(time.RFC3339)
	}
	return ca, ""
}

// newestFirst orders by the start of validity, which has a resolution of one second, and then by content, so that no
// two different certificates are equal.
func newestFirst(a, b *x509.Certificate) int {
	if c := b.NotBefore.Compare(a.NotBefore); c != 0 {
		return c
	}
	return bytes.Compare(a.Raw, b.Raw)
}

// describe names a certificate in a message. Quoted, since its content may come from anyone.
func describe(c *x509.Certificate) string {
	return fmt.Sprintf("certificate %q, serial %x", c.Subject.String(), c.SerialNumber)
}
