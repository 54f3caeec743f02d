package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

// maxAuthorities is the maximum number of CAs in a bundle. Renewal after two thirds of the validity
// leaves at most two valid CAs. The remaining space is for Secrets that are deleted repeatedly. Without
// a limit, the bundles (less than 1 KiB per CA and webhook) could exceed the 1.5 MiB that etcd accepts
// per object.
const maxAuthorities = 8

const pemTypeCertificate = "CERTIFICATE"

// mergeBundles returns the PEM bundle of the current CA and of the existing CAs that may still be in
// use. The result dropped contains a message for each part of the input that the bundle omits.
//
// The bundle is in canonical order: the newest CA first, without duplicates. It depends only on the set
// of certificates in the input, so all replicas write the same bytes. The bundle omits everything that
// is not a CA certificate, CAs that expired before now, and the oldest CAs beyond maxAuthorities. It
// never omits the current CA because of its age. The bundle is empty if the input contains no valid CA.
func mergeBundles(current, existing []byte, now time.Time) (bundle []byte, dropped []string) {
	kept, dropped := parseAuthorities(current, now)
	isCurrent := map[string]bool{}
	for _, ca := range kept {
		isCurrent[string(ca.Raw)] = true
	}

	former, formerDropped := parseAuthorities(existing, now)
	dropped = append(dropped, formerDropped...)
	kept = append(kept, former...)

	slices.SortFunc(kept, compareNewestFirst)
	kept = slices.CompactFunc(kept, (*x509.Certificate).Equal)
	for i := len(kept) - 1; i >= 0 && len(kept) > maxAuthorities; i-- {
		if !isCurrent[string(kept[i].Raw)] {
			dropped = append(dropped, describeCertificate(kept[i])+": too many authorities")
			kept = slices.Delete(kept, i, i+1)
		}
	}

	for _, ca := range kept {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: pemTypeCertificate, Bytes: ca.Raw})...)
	}
	return bundle, dropped
}

// parseAuthorities returns the CAs of a PEM bundle that are not expired at now, in the order of the
// bundle. The result dropped contains a message for every other part of the bundle.
func parseAuthorities(bundle []byte, now time.Time) (cas []*x509.Certificate, dropped []string) {
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		ca, reason := parseCA(block, now)
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

// parseCA returns the CA in a PEM block, or the reason to drop the block.
func parseCA(block *pem.Block, now time.Time) (ca *x509.Certificate, reason string) {
	if block.Type != pemTypeCertificate {
		return nil, fmt.Sprintf("PEM block %q: not a certificate", block.Type)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("certificate: %v", err)
	case !ca.IsCA:
		return nil, describeCertificate(ca) + ": not a CA"
	case now.After(ca.NotAfter):
		return nil, describeCertificate(ca) + ": expired at " + ca.NotAfter.Format(time.RFC3339)
	}
	return ca, ""
}

// compareNewestFirst compares by the start of validity, which has a resolution of one second, and then
// by content. Only identical certificates are equal.
func compareNewestFirst(a, b *x509.Certificate) int {
	if c := b.NotBefore.Compare(a.NotBefore); c != 0 {
		return c
	}
	return bytes.Compare(a.Raw, b.Raw)
}

// describeCertificate returns the name of a certificate for a message. The subject is quoted, because it
// is untrusted input.
func describeCertificate(certificate *x509.Certificate) string {
	return fmt.Sprintf("certificate %q, serial %x", certificate.Subject.String(), certificate.SerialNumber)
}
