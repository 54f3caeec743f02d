package vet

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func checkUnresolvableRendezvous(r *reporter, w *labeledWorkload) {
	hasCustomNames := len(w.admitted.Template().Spec.HostAliases) > 0
	if !w.hasMultiplePods() || hasCustomNames {
		return
	}
	w.visitRendezvousHosts(func(field, name, address string, severity Severity) {
		host := hostOf(address)
		if reason := r.explainUnresolvableHost(w, host); reason != "" {
			r.addWithSeverity(severity, field, fixForRendezvousHost(name), "%s is %s, but %s", name, address, reason)
		} else if r.isForeignName(w, host) {
			r.add(field, fixForRendezvousHost(name), "%s is %s, which is neither a pod of the gang nor a Service of the "+
				"input, so it resolves only if the cluster has this name", name, address)
		}
	})
	r.checkTFConfigHosts(w)
}

// hostOf returns the host of an address with an optional scheme and port.
func hostOf(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	if rest, ok := strings.CutPrefix(address, "["); ok {
		address, _, _ = strings.Cut(rest, "]")
	} else if strings.Count(address, ":") == 1 {
		address, _, _ = strings.Cut(address, ":")
	}
	return strings.TrimSuffix(strings.ToLower(address), ".")
}

// podHostnamePattern matches hostnames that end with the index of a pod.
var podHostnamePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?-[0-9]+$`)

// privateDomains are top-level domains of hosts outside the cluster.
var privateDomains = []string{"internal", "local", "lan", "home", "corp", "intranet", "localdomain"}

// explainUnresolvableHost returns why a host cannot be a pod of the gang. It returns an empty
// string if the host may resolve, for example because it is the name of another Service.
func (in *input) explainUnresolvableHost(w *labeledWorkload, host string) string {
	labels := strings.Split(host, ".")
	if _, err := netip.ParseAddr(host); err == nil || !podHostnamePattern.MatchString(labels[0]) {
		return ""
	}
	if len(labels) == 1 {
		return in.explainBareHostname(w, host)
	}
	isPodAddress := len(labels) == 2 && !slices.Contains(privateDomains, labels[1]) ||
		len(labels) == 3 && labels[2] == w.namespace || len(labels) > 3 && labels[3] == "svc"
	isInGang := w.hasPod(labels[0]) && strings.HasPrefix(labels[0]+"."+w.gang.ServiceFQDN()+".", host+".")
	if !isPodAddress || isInGang || in.hasPodsNamed(labels[0]) && !w.hasHostname(labels[0]) {
		return ""
	}
	return fmt.Sprintf("no pod of the gang has this address; rank 0 is %s.%s",
		hostnameOfRank0(w.gang), w.gang.ServiceName)
}

// explainBareHostname returns why the hostname of a pod of the gang does not resolve without its Service.
// It returns an empty string if the name may resolve.
func (in *input) explainBareHostname(w *labeledWorkload, host string) string {
	dns := w.admitted.Template().Spec.DNSConfig
	isSearched := dns != nil && slices.Contains(dns.Searches, w.gang.ServiceFQDN())
	if !w.hasHostname(host) || isSearched || in.isService(w, host) {
		return ""
	}
	return fmt.Sprintf("the address of this pod is %s.%s", host, w.gang.ServiceName)
}

// isForeignName reports whether a host is a name without a domain that neither the gang nor the input explains. The
// cluster can still have a Service of this name, or the resolver of the pods a domain.
func (in *input) isForeignName(w *labeledWorkload, host string) bool {
	spec := w.admitted.Template().Spec
	hasOwnResolver := spec.HostNetwork || spec.DNSPolicy == corev1.DNSDefault || spec.DNSPolicy == corev1.DNSNone
	_, err := netip.ParseAddr(host)
	isName := err != nil && host != "" && host != "localhost" && !strings.ContainsAny(host, "./$")
	return isName && !hasOwnResolver && !w.hasHostname(host) && host != w.gang.ServiceName && !in.isService(w, host)
}

// isService reports whether the input has a Service with the name in the namespace of a workload.
func (in *input) isService(w *labeledWorkload, name string) bool {
	return in.findObject("Service", w.namespace, name) != nil
}

// hasHostname reports whether a pod of the gang can have the hostname.
func (w *labeledWorkload) hasHostname(hostname string) bool {
	return slices.ContainsFunc(w.gang.Members, func(m gang.Member) bool {
		return strings.TrimRight(hostname, "0123456789") == m.WorkloadName+"-"
	})
}

// hasPod reports whether the gang can have a pod with the hostname. An elastic gang can grow.
func (w *labeledWorkload) hasPod(hostname string) bool {
	prefix := strings.TrimRight(hostname, "0123456789")
	index, err := strconv.Atoi(hostname[len(prefix):])
	return err == nil && slices.ContainsFunc(w.gang.Members, func(m gang.Member) bool {
		return prefix == m.WorkloadName+"-" && index < int(w.gang.SizeBounds(m).Max)
	})
}

// hasPodsNamed reports whether the hostname belongs to a workload of the input.
func (in *input) hasPodsNamed(hostname string) bool {
	return slices.ContainsFunc(in.objects, func(o *inputObject) bool {
		return strings.TrimRight(hostname, "0123456789") == o.Name+"-"
	})
}

func hostnameOfRank0(g *gang.Gang) string {
	hostname, _, _ := strings.Cut(g.RankFQDN(0), ".")
	return hostname
}
