package vet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func ofNetworks() []Check {
	return []Check{
		{
			Code: CodeHostNetworkPort, Severity: Warning, gang: hostNetworkPort,
			Title: "Pods on the host's network, and a port that the scheduler does not know of",
			Why:   "On the host's network the port of the rendezvous is the node's. Two pods that listen there, of this gang or another, cannot share a node, and the second one fails with \"address already in use\". A declared port keeps them apart.",
			Fix:   "Declare the port in the training container's `ports`, or choose another for each gang with the annotation `" + gang.AnnotationPort + "`.",
		},
		{
			Code: CodeCustomDNS, Severity: Advice, gang: customDNS,
			Title: "Pods with name servers of their own",
			Why:   "Ranks find each other by names of the cluster's DNS. With `dnsPolicy: None` only the name servers that are listed are asked, and they have to know those names.",
			Fix:   "Remove `dnsPolicy`, and add servers or options to the cluster's with `dnsConfig`.",
		},
		{
			Code: CodeServiceMesh, Severity: Warning, gang: serviceMesh,
			Title: "A service mesh is put into the pods",
			Why:   "A proxy stands between ranks that speak raw TCP on many ports, and slows or breaks what they say; one that is no native sidecar also runs on when the training has ended, so that the Job never completes (istio/istio#6324, linkerd/linkerd2#1869). Istio's sidecar is kept out by Rollcall unless the pod template asks for it; Linkerd's is not.",
			Fix:   "Remove the label `sidecar.istio.io/inject: \"true\"`; for Linkerd, set the annotation `linkerd.io/inject: disabled` on the pod template.",
		},
	}
}

func hostNetworkPort(_ *input, m *member) []remark {
	if !m.admitted.Template().Spec.HostNetwork || !m.several() {
		return nil
	}
	for _, c := range m.admitted.Template().Spec.Containers {
		for _, p := range c.Ports {
			if p.ContainerPort == m.gang.Port || p.HostPort == m.gang.Port {
				return nil
			}
		}
	}
	return say(templateSpec+".hostNetwork", "port %d of the node is the gang's, and the scheduler does not know", m.gang.Port).
		do("declare it in the training container: ports: [{containerPort: %d}]", m.gang.Port)
}

func customDNS(_ *input, m *member) []remark {
	if !m.several() || m.admitted.Template().Spec.DNSPolicy != corev1.DNSNone {
		return nil
	}
	return say(templateSpec+".dnsPolicy", "the ranks ask the name servers of dnsConfig alone, which have to know names such as %s", m.gang.Host(0)).
		do("remove dnsPolicy, unless they know them")
}

const (
	istioInject   = "sidecar.istio.io/inject"
	linkerdInject = "linkerd.io/inject"
)

func serviceMesh(in *input, m *member) []remark {
	t := m.written.Template()
	if t.Labels[istioInject] == "true" {
		return say(fmt.Sprintf("spec.template.metadata.labels[%s]", istioInject), "Istio's proxy is put between the ranks").do("remove the label")
	}
	asks := func(v string) bool { return v == "enabled" || v == "ingress" }
	field := fmt.Sprintf("spec.template.metadata.annotations[%s]", linkerdInject)
	own, said := t.Annotations[linkerdInject]
	if asks(own) {
		return say(field, "Linkerd's proxy is put between the ranks").do("set it to disabled")
	}
	if ns := in.find("Namespace", "", m.namespace); !said && ns != nil && asks(strings.TrimSpace(ns.Annotations[linkerdInject])) {
		return say(field, "Linkerd's proxy is put between the ranks, by the annotation of the Namespace %s", ns.Name).do("set it to disabled on the pod template")
	}
	return nil
}
