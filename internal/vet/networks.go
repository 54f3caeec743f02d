package vet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func checkHostNetworkPort(r *reporter, w *labeledWorkload) {
	spec := w.admitted.Template().Spec
	sharesNode := !slices.ContainsFunc(w.trainingContainers(), trainingContainer.usesWholeNode)
	if !spec.HostNetwork || !w.hasMultiplePods() || !sharesNode || w.isIdleLauncher() {
		return
	}
	isRendezvousPort := func(p corev1.ContainerPort) bool {
		return p.ContainerPort == w.gang.Port || p.HostPort == w.gang.Port
	}
	for _, c := range spec.Containers {
		if slices.ContainsFunc(c.Ports, isRendezvousPort) {
			return
		}
	}
	r.add(podSpecPath+".hostNetwork",
		fmt.Sprintf("declare the port in the training container: ports: [{containerPort: %d}]", w.gang.Port),
		"the gang uses port %d of the node, but the scheduler does not know the port", w.gang.Port)
}

const (
	istioInjectLabel        = "sidecar.istio.io/inject"
	linkerdInjectAnnotation = "linkerd.io/inject"
)

func checkServiceMesh(r *reporter, w *labeledWorkload) {
	template := w.workload.Template()
	if template.Labels[istioInjectLabel] == "true" {
		r.add(fmt.Sprintf("spec.template.metadata.labels[%s]", istioInjectLabel), "remove the label",
			"injects the proxy of Istio between the ranks")
		return
	}
	field := fmt.Sprintf("spec.template.metadata.annotations[%s]", linkerdInjectAnnotation)
	value, isSet := template.Annotations[linkerdInjectAnnotation]
	if enablesLinkerd(value) {
		r.add(field, "set it to disabled", "injects the proxy of Linkerd between the ranks")
		return
	}
	// The annotation of the pod template overrides the annotation of the Namespace.
	namespace := r.findObject("Namespace", "", w.namespace)
	if isSet || namespace == nil || !enablesLinkerd(strings.TrimSpace(namespace.Annotations[linkerdInjectAnnotation])) {
		return
	}
	r.add(field, "set it to disabled on the pod template",
		"is not set, so the Namespace %s injects the proxy of Linkerd between the ranks", namespace.Name)
}

// enablesLinkerd reports whether a value of linkerdInjectAnnotation injects the proxy.
func enablesLinkerd(value string) bool { return value == "enabled" || value == "ingress" }
