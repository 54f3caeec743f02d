package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

var dnsSearchTargets = targetKind{
	planned: (*applier).plannedDNSSearchTargets,
	apply:   (*applier).applyDNSSearches,
	recorded: func(r *Record, add func(target, string)) {
		for domain, digest := range r.DNSSearches {
			add(dnsSearchTarget{domain}, digest)
		}
	},
}

// dnsSearchTarget is a DNS search domain of the pod.
type dnsSearchTarget struct{ domain string }

func (t dnsSearchTarget) currentValue(p *podTemplate) any {
	if config := p.template.Spec.DNSConfig; config != nil && slices.Contains(config.Searches, t.domain) {
		return t.domain
	}
	return nil
}

// removeFrom also removes a DNS configuration that becomes empty.
func (t dnsSearchTarget) removeFrom(p *podTemplate) {
	config := p.template.Spec.DNSConfig
	if config == nil {
		return
	}
	config.Searches = slices.DeleteFunc(config.Searches, func(domain string) bool { return domain == t.domain })
	if len(config.Searches)+len(config.Nameservers)+len(config.Options) == 0 {
		p.template.Spec.DNSConfig = nil
	}
}

func (t dnsSearchTarget) recordDigest(r *Record, digest string) { r.DNSSearches.set(t.domain, digest) }

func (a *applier) plannedDNSSearchTargets() []target {
	var targets []target
	for _, domain := range a.plan.DNSSearches {
		targets = append(targets, dnsSearchTarget{domain})
	}
	return targets
}

func (a *applier) applyDNSSearches() {
	for _, domain := range a.plan.DNSSearches {
		t := dnsSearchTarget{domain}
		exists := t.currentValue(a.pod) != nil
		if exists && !a.owned[t] {
			continue // the domain belongs to the user
		}
		if !exists {
			spec := &a.pod.template.Spec
			if spec.DNSConfig == nil {
				spec.DNSConfig = &corev1.PodDNSConfig{}
			}
			spec.DNSConfig.Searches = append(spec.DNSConfig.Searches, domain)
		}
		a.applied = append(a.applied, t)
	}
}
