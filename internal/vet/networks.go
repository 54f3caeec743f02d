package vet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func networkChecks() []Check {
	return []Check{
		{
			Code: CodeHostNetworkPort, Severity: Warning, checkGang: checkHostNetworkPort,
			Title: "The pods use the host network, but do not declare the rendezvous port",
			Why: "With hostNetwork, the rendezvous port is a port of the node. " +
				"If two pods on a node listen on the same port, the second one fails with \"address already in use\". " +
				"The scheduler keeps pods with the same declared port on different nodes. " +
				"vet does not report pods with 4 or more accelerators, which usually do not share their node.",
			Fix: "Declare the port in `ports` of the training container. " +
				"Or choose a different port for each gang with the annotation `" + gang.AnnotationPort + "`.",
		},
		{
			Code: CodeCustomDNS, Severity: Info, checkGang: checkCustomDNS,
			Title: "The pods use custom name servers",
			Why: "The ranks find each other by DNS names of the cluster. " +
				"With `dnsPolicy: None`, pods query only the listed name servers, which must resolve the names of the cluster.",
			Fix: "Remove `dnsPolicy`, and add name servers or options with `dnsConfig`.",
		},
		{
			Code: CodeServiceMesh, Severity: Warning, checkGang: checkServiceMesh,
			Title: "A service mesh injects a proxy into the pods",
			Why: "The ranks use raw TCP on many ports, and a proxy between them slows or breaks their connections. " +
				"A proxy that is not a native sidecar continues to run after the training has finished. " +
				"The Job then never completes (istio/istio#6324, linkerd/linkerd2#1869). " +
				"Rollcall disables the sidecar of Istio unless the pod template requests it, but not the proxy of Linkerd.",
			Fix: "Remove the label `sidecar.istio.io/inject: \"true\"`. " +
				"For Linkerd, set the annotation `linkerd.io/inject: disabled` on the pod template.",
		},
	}
}

func checkHostNetworkPort(_ *input, w *labeledWorkload) []issue {
	spec := w.admitted.Template().Spec
	sharesNode := !slices.ContainsFunc(w.trainingContainers(), trainingContainer.usesWholeNode)
	if !spec.HostNetwork || !w.hasMultiplePods() || !sharesNode || w.isIdleLauncher() {
		return nil
	}
	isRendezvousPort := func(p corev1.ContainerPort) bool {
		return p.ContainerPort == w.gang.Port || p.HostPort == w.gang.Port
	}
	for _, c := range spec.Containers {
		if slices.ContainsFunc(c.Ports, isRendezvousPort) {
			return nil
		}
	}
	return []issue{{
		field:   podSpecPath + ".hostNetwork",
		message: fmt.Sprintf("the gang uses port %d of the node, but the scheduler does not know the port", w.gang.Port),
		fix:     fmt.Sprintf("declare the port in the training container: ports: [{containerPort: %d}]", w.gang.Port),
	}}
}

func checkCustomDNS(_ *input, w *labeledWorkload) []issue {
	if !w.hasMultiplePods() || w.admitted.Template().Spec.DNSPolicy != corev1.DNSNone {
		return nil
	}
	return []issue{{
		field: podSpecPath + ".dnsPolicy",
		message: fmt.Sprintf("the pods query only the name servers of dnsConfig, which must resolve names such as %s",
			w.gang.RankFQDN(0)),
		fix: "remove dnsPolicy, unless the name servers resolve these names",
	}}
}

const (
	istioInjectLabel        = "sidecar.istio.io/inject"
	linkerdInjectAnnotation = "linkerd.io/inject"
)

func checkServiceMesh(in *input, w *labeledWorkload) []issue {
	template := w.workload.Template()
	if template.Labels[istioInjectLabel] == "true" {
		return []issue{{
			field:   fmt.Sprintf("spec.template.metadata.labels[%s]", istioInjectLabel),
			message: "injects the proxy of Istio between the ranks",
			fix:     "remove the label",
		}}
	}
	field := fmt.Sprintf("spec.template.metadata.annotations[%s]", linkerdInjectAnnotation)
	value, isSet := template.Annotations[linkerdInjectAnnotation]
	if enablesLinkerd(value) {
		return []issue{{
			field:   field,
			message: "injects the proxy of Linkerd between the ranks",
			fix:     "set it to disabled",
		}}
	}
	// The annotation of the pod template overrides the annotation of the Namespace.
	namespace := in.findObject("Namespace", "", w.namespace)
	if isSet || namespace == nil || !enablesLinkerd(strings.TrimSpace(namespace.Annotations[linkerdInjectAnnotation])) {
		return nil
	}
	return []issue{{
		field: field,
		message: fmt.Sprintf("is not set, so the Namespace %s injects the proxy of Linkerd between the ranks",
			namespace.Name),
		fix: "set it to disabled on the pod template",
	}}
}

// enablesLinkerd reports whether a value of linkerdInjectAnnotation injects the proxy.
func enablesLinkerd(value string) bool { return value == "enabled" || value == "ingress" }
