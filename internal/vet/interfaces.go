package vet

import (
	"regexp"
	"slices"
	"strings"
)

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
