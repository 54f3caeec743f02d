package check

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// judgeBundles judges whether API servers trust the serving certificate. It groups webhooks with the same
// problem.
func (i *Installation) judgeBundles() []Result {
	var results []Result
	byMessage := map[string][]string{}
	fixes := map[string]Result{}
	var order []string
	for _, w := range i.listWebhooks() {
		result := i.judgeBundle(i.Bundles[w.name])
		if result.Status == OK {
			continue
		}
		if _, seen := fixes[result.Message]; !seen {
			order = append(order, result.Message)
			fixes[result.Message] = result
		}
		byMessage[result.Message] = append(byMessage[result.Message], w.name)
	}
	for _, message := range order {
		result := fixes[message]
		if result.Status != Unknown {
			result.Message = joinNames(byMessage[message]) + ": " + message
		}
		results = append(results, result)
	}
	switch {
	case len(results) > 0:
		return results
	case len(i.listWebhooks()) == 0:
		return []Result{newProblem(CodeCABundle, Unknown, "the CA bundles: no webhook configuration is known", "")}
	}
	return []Result{newOK(CodeCABundle, "the CA bundles match the certificate of the webhook")}
}

// judgeBundle judges the CA bundle of one webhook.
func (i *Installation) judgeBundle(b Bundle) Result {
	switch {
	case b.Err != nil:
		return newProblem(CodeCABundle, Error, "the CA bundle is invalid: "+shortenError(b.Err), i.bundleFix())
	case b.Size == 0 && i.Admission.isInjected():
		return newOK(CodeCABundle, "API servers trust the certificate by other means")
	case b.Size == 0:
		return newProblem(CodeCABundle, Error, "the CA bundle is empty", i.bundleFix())
	}
	if i.Served != nil && i.Served.Err == nil {
		return i.compareBundle(b, i.Served.Value)
	}
	switch {
	case i.Secret.Err == nil && len(i.Secret.Value) > 0:
		return i.compareBundle(b, i.Secret.Value)
	case i.Admission.isInjected():
		return newOK(CodeCABundle, "the dry run used the certificate")
	case i.Secret.Err == nil:
		return newProblem(CodeCABundle, Error, "the Secret with the certificate does not exist, or is empty", i.bundleFix())
	}
	return i.Secret.explainUnknown(CodeCABundle, "the Secret with the certificate")
}

// compareBundle judges whether a bundle contains the certificate authority of the Secret, or verifies the
// serving certificate.
func (i *Installation) compareBundle(b Bundle, certificates []*x509.Certificate) Result {
	leaf := certificates[0]
	if leaf.IsCA && slices.ContainsFunc(b.Certificates, leaf.Equal) {
		return newOK(CodeCABundle, "the bundle contains the certificate authority")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range b.Certificates {
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
		return newProblem(CodeCABundle, Error, "the CA bundle does not match the certificate of the webhook", i.bundleFix())
	}
	if client := i.findClient(); !leaf.IsCA && client.Service != nil {
		host := client.Service.Name + "." + client.Service.Namespace + ".svc"
		if leaf.VerifyHostname(host) != nil {
			return newProblem(CodeCABundle, Error, "the certificate of the webhook is not valid for "+host, i.bundleFix())
		}
	}
	return newOK(CodeCABundle, "the bundle verifies the certificate")
}

// bundleFix is the fix of a CA bundle.
func (i *Installation) bundleFix() string {
	if i.managesCertificates() {
		name := "the webhook"
		if d := i.Webhook.Deployment.Value; d != nil {
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

// judgeCertificates judges the validity of the certificate that is known.
func (f Facts) judgeCertificates() []Result {
	i := f.Installation
	subject, certificate := "the serving certificate", (*x509.Certificate)(nil)
	switch {
	case i.Served != nil && i.Served.Err == nil:
		certificate = i.Served.Value[0]
	case i.Secret.Err == nil && len(i.Secret.Value) > 0:
		certificate = i.Secret.Value[0]
	default:
		certificate = i.findNewestAuthority()
	}
	if certificate != nil && certificate.IsCA {
		subject = "the certificate authority"
	}
	if certificate == nil || certificate.IsCA && !i.managesCertificates() {
		if i.Secret.Err != nil {
			return []Result{i.Secret.explainUnknown(CodeCertificate, "the validity of the serving certificate")}
		}
		return []Result{newProblem(CodeCertificate, Unknown, "the validity of the serving certificate", "")}
	}
	end := certificate.NotAfter.UTC().Format(time.RFC3339)
	validity := certificate.NotAfter.Sub(certificate.NotBefore)
	switch remaining := certificate.NotAfter.Sub(f.Time); {
	case remaining <= 0:
		return []Result{newProblem(CodeCertificate, Error, fmt.Sprintf("%s expired at %s", subject, end), i.renewalFix())}
	case remaining < validity/overdueFraction:
		return []Result{newProblem(CodeCertificate, Warning,
			fmt.Sprintf("%s expires at %s, and its renewal is overdue", subject, end), i.renewalFix())}
	}
	if certificate.IsCA {
		return []Result{newOK(CodeCertificate, "%s is valid until %s; the webhook renews the serving certificate",
			subject, end)}
	}
	return []Result{newOK(CodeCertificate, "%s is valid until %s", subject, end)}
}

// findNewestAuthority returns the authority of the bundles that was created last, or nil.
func (i *Installation) findNewestAuthority() *x509.Certificate {
	var newest *x509.Certificate
	for _, w := range i.listWebhooks() {
		for _, c := range i.Bundles[w.name].Certificates {
			if newest == nil || c.NotBefore.After(newest.NotBefore) {
				newest = c
			}
		}
	}
	return newest
}

func (i *Installation) renewalFix() string {
	if i.managesCertificates() {
		return i.bundleFix()
	}
	return "renew the certificate in the Secret, or repair its Issuer: kubectl --namespace " + i.Namespace +
		" get certificates"
}
