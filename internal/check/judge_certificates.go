package check

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"time"
)

// judgeBundles judges whether API servers trust the serving certificate. It groups webhooks with the same
// problem.
func judgeBundles(r *reporter, i *Installation) {
	webhooks := i.listWebhooks()
	isProven := len(i.Secret.Value) > 0 || i.Admission.isInjected()
	names := map[string][]string{}
	for _, w := range webhooks {
		if problem := i.findBundleProblem(w.client.CABundle, isProven); problem != "" {
			names[problem] = append(names[problem], w.name)
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(names)) {
		r.fail(i.bundleFix(), "%s: %s", joinNames(names[problem]), problem)
	}
	switch {
	case len(r.results) > 0:
	case len(webhooks) == 0:
		r.unknown("", "the CA bundles: no webhook configuration is known")
	case !isProven:
		r.addUnread("the Secret with the certificate", i.Secret.Err)
	default:
		r.ok("the CA bundles match the certificate of the webhook")
	}
}

// findBundleProblem returns why API servers do not trust the certificate of the webhook. It is empty if they do, or if
// the certificate is not known. isProven is false without a certificate and without a successful dry run.
func (i *Installation) findBundleProblem(text []byte, isProven bool) string {
	bundle := parseCertificates(text)
	switch {
	case len(text) == 0 && !i.Admission.isInjected(): // API servers can trust the certificate by other means
		return "the CA bundle is empty"
	case len(text) > 0 && len(bundle) == 0:
		return "the CA bundle is invalid"
	case len(text) > 0 && len(i.Secret.Value) > 0:
		return i.compareBundle(bundle, i.Secret.Value)
	case !isProven && i.Secret.Err == nil:
		return "the Secret with the certificate does not exist, or is empty"
	}
	return ""
}

// parseCertificates returns the certificates of a text in PEM.
func parseCertificates(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// compareBundle returns why a bundle does not contain the certificate authority, or does not verify the serving
// certificate. It is empty if it does.
func (i *Installation) compareBundle(bundle, certificates []*x509.Certificate) string {
	leaf := certificates[0]
	if leaf.IsCA && slices.ContainsFunc(bundle, leaf.Equal) {
		return ""
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range bundle {
		roots.AddCert(c)
	}
	for _, c := range certificates[1:] {
		intermediates.AddCert(c)
	}
	// The validity is another check.
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: leaf.NotAfter,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return "the CA bundle does not match the certificate of the webhook"
	}
	if client := i.findClient(); !leaf.IsCA && client.Service != nil {
		host := client.Service.Name + "." + client.Service.Namespace + ".svc"
		if leaf.VerifyHostname(host) != nil {
			return "the certificate of the webhook is not valid for " + host
		}
	}
	return ""
}

// bundleFix is the fix of a CA bundle.
func (i *Installation) bundleFix() string {
	if i.managesCertificates() {
		name := "the webhook"
		if d := i.Webhook.Value; d != nil {
			name = "deployment/" + d.Name
		}
		return "a running webhook writes the bundle; read its log: kubectl --namespace " + i.Namespace + " logs " + name
	}
	return "set the value certificates.caBundle to the authority of the Secret, or let the CA injector of cert-manager " +
		"write the bundles"
}

// A certificate is overdue for renewal if less than a fifth of its validity remains. Rollcall and cert-manager
// renew after two thirds.
const overdueFraction = 5

// judgeCertificate judges the validity of the certificate that is known, or of the newest authority of the bundles.
func judgeCertificate(r *reporter, f Facts) {
	i := f.Installation
	subject, certificate := "the serving certificate", i.findNewestAuthority()
	if known := i.Secret.Value; len(known) > 0 {
		certificate = known[0]
	}
	switch {
	case certificate != nil && (!certificate.IsCA || i.managesCertificates()):
	case i.Secret.Err != nil:
		r.addUnread("the validity of the serving certificate", i.Secret.Err)
		return
	default:
		r.unknown("", "the validity of the serving certificate")
		return
	}
	suffix := ""
	if certificate.IsCA {
		subject, suffix = "the certificate authority", "; the webhook renews the serving certificate"
	}
	fix := "renew the certificate in the Secret, or repair its Issuer: kubectl --namespace " + i.Namespace +
		" get certificates"
	if i.managesCertificates() {
		fix = i.bundleFix()
	}
	end := certificate.NotAfter.UTC().Format(time.RFC3339)
	validity := certificate.NotAfter.Sub(certificate.NotBefore)
	switch remaining := certificate.NotAfter.Sub(f.Time); {
	case remaining <= 0:
		r.fail(fix, "%s expired at %s", subject, end)
	case remaining < validity/overdueFraction:
		r.warn(fix, "%s expires at %s, and its renewal is overdue", subject, end)
	default:
		r.ok("%s is valid until %s%s", subject, end, suffix)
	}
}

// findNewestAuthority returns the authority of the bundles that was created last, or nil.
func (i *Installation) findNewestAuthority() *x509.Certificate {
	var newest *x509.Certificate
	for _, w := range i.listWebhooks() {
		for _, c := range parseCertificates(w.client.CABundle) {
			if newest == nil || c.NotBefore.After(newest.NotBefore) {
				newest = c
			}
		}
	}
	return newest
}
