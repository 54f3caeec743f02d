package vet

import (
	"fmt"
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

// interfaceSetting is a variable that selects interfaces by name.
type interfaceSetting struct {
	// field is the path of the value, or of the command with the assignment.
	field string
	// variable and value are the variable as written.
	variable, value string
	// interfaces are the names in the value. There is at least one.
	interfaces []string
}

// interfaceSettings returns the settings of all training containers. Values that exclude interfaces
// are not among them.
func (w *labeledWorkload) interfaceSettings() []interfaceSetting {
	var settings []interfaceSetting
	add := func(field, variable, value string) {
		isExclusion := strings.HasPrefix(value, "^")
		if slices.Contains(interfaceVars, variable) && value != "" && !isExclusion {
			settings = append(settings, interfaceSetting{
				field: field, variable: variable, value: value,
				interfaces: strings.Split(strings.TrimPrefix(value, "="), ","),
			})
		}
	}
	for _, c := range w.trainingContainers() {
		for i, e := range c.Env {
			if value, ok := literalValue(e); ok {
				add(c.envPath(i), e.Name, value)
			}
		}
		for _, a := range c.parseCommand().Assignments {
			add(c.commandPath(), a.Name, a.Value)
		}
	}
	return settings
}

// unavailableInterface returns an interface of the setting if the pods cannot use any of them to
// reach each other. It returns an empty string if at least one of them may be usable.
func (w *labeledWorkload) unavailableInterface(s interfaceSetting) string {
	template := w.admitted.Template()
	if _, ok := template.Annotations[additionalNetworksAnnotation]; ok {
		return ""
	}
	for _, name := range s.interfaces {
		if name != "lo" && (template.Spec.HostNetwork || podInterfacePattern.MatchString(name)) {
			return ""
		}
	}
	return s.interfaces[0]
}

func checkSocketInterface(r *reporter, w *labeledWorkload) {
	// The network plugin gives the same names to all pods of a cluster.
	if !w.hasMultiplePods() || !w.admitted.Template().Spec.HostNetwork {
		return
	}
	for _, s := range w.interfaceSettings() {
		isHardwareName := func(name string) bool { return name != "lo" && !podInterfacePattern.MatchString(name) }
		if w.unavailableInterface(s) == "" && slices.ContainsFunc(s.interfaces, isHardwareName) {
			r.add(s.field, "remove it, because the interface is selected automatically",
				"%s is %s, so the program works only on nodes with this interface and uses no other", s.variable, s.value)
		}
	}
}

func checkNodeInterface(r *reporter, w *labeledWorkload) {
	if !w.hasMultiplePods() {
		return
	}
	for _, s := range w.interfaceSettings() {
		name := w.unavailableInterface(s)
		if name == "" {
			continue
		}
		reason := fmt.Sprintf("but a pod without hostNetwork does not have the interface %s", name)
		if name == "lo" {
			reason = "which does not reach other pods"
		}
		r.add(s.field, "remove it, because the interface is selected automatically",
			"%s is %s, %s", s.variable, s.value, reason)
	}
}
