package vet

import (
	"fmt"
	"regexp"
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

// interfaceVars are the variables of NCCL, Gloo, TensorPipe and HCCL that select an interface.
var interfaceVars = []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME"}

// podInterfacePattern matches interfaces that network plugins give to pods. Multus uses names such
// as net1.
var podInterfacePattern = regexp.MustCompile(`^(eth|net)[0-9]*$`)

// additionalNetworksAnnotation is the annotation of Multus that requests additional interfaces.
const additionalNetworksAnnotation = "k8s.v1.cni.cncf.io/networks"

// checkNodeInterface finds variables that select only interfaces which do not connect the pods. A value with a caret
// excludes interfaces.
func checkNodeInterface(r *reporter, w *labeledWorkload) {
	template := w.admitted.Template()
	_, hasMoreNetworks := template.Annotations[additionalNetworksAnnotation]
	if !w.hasMultiplePods() || hasMoreNetworks {
		return
	}
	connectsPods := func(name string) bool {
		return name != "lo" && (template.Spec.HostNetwork || podInterfacePattern.MatchString(name))
	}
	for _, c := range w.trainingContainers() {
		w.visitAssignments(c, interfaceVars, func(field, variable, value string, _ Severity) {
			interfaces := strings.Split(strings.TrimPrefix(value, "="), ",")
			if value == "" || strings.HasPrefix(value, "^") || slices.ContainsFunc(interfaces, connectsPods) {
				return
			}
			reason := "but a pod without hostNetwork does not have the interface " + interfaces[0]
			if interfaces[0] == "lo" {
				reason = "which does not reach other pods"
			}
			r.add(field, "remove it, because the interface is selected automatically",
				"%s is %s, %s", variable, value, reason)
		})
	}
}
