package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/plan"
)

func (p *podTemplate) readDNSSearch(k key) any {
	if config := p.template.Spec.DNSConfig; config != nil && slices.Contains(config.Searches, k.name) {
		return k.name
	}
	return nil
}

// removeDNSSearch also removes a DNS configuration that becomes empty.
func (p *podTemplate) removeDNSSearch(k key) {
	config := p.template.Spec.DNSConfig
	if config == nil {
		return
	}
	config.Searches = slices.DeleteFunc(config.Searches, func(domain string) bool { return domain == k.name })
	if len(config.Searches)+len(config.Nameservers)+len(config.Options) == 0 {
		p.template.Spec.DNSConfig = nil
	}
}

// applyDNSSearches appends the DNS search domains of the plan. A domain that the user lists belongs to the user.
func (a *applier) applyDNSSearches() {
	for _, domain := range a.plan.DNSSearches {
		exists := a.pod.readDNSSearch(key{name: domain}) != nil
		if decide(relate(exists, a.owns(kindDNSSearch, "", domain), true), plan.KeepUser) != write {
			continue
		}
		if spec := &a.pod.template.Spec; !exists {
			if spec.DNSConfig == nil {
				spec.DNSConfig = &corev1.PodDNSConfig{}
			}
			spec.DNSConfig.Searches = append(spec.DNSConfig.Searches, domain)
		}
		a.markApplied(kindDNSSearch, "", domain)
	}
}
