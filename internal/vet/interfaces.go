package vet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func interfaceChecks() []Check {
	return []Check{
		{
			Code: CodeSocketInterface, Severity: Info, checkGang: checkSocketInterface,
			Title: "An interface of the node is set by its hardware name",
			Why: "With hostNetwork, names such as ens5, enp7s0 and bond0 depend on the hardware and the image of the node. " +
				"NCCL and Gloo select the interface automatically. " +
				"A fixed name ties the manifest to one type of node, and prevents NCCL from using other interfaces.",
			Fix: "Remove the variable. To exclude interfaces from NCCL, use a value such as `^docker,lo`.",
		},
		{
			Code: CodeNodeInterface, Severity: Warning, checkGang: checkNodeInterface,
			Title: "The configured network interface does not connect the pods",
			Why: "A pod has its own network with lo and the interfaces of the network plugin, usually eth0. " +
				"Names such as ens5 or ib0 are interfaces of nodes, so NCCL and Gloo find no interface and exit. " +
				"The interface lo does not reach other pods.",
			Fix: "Remove the variable. If the program needs the interface, set `hostNetwork: true`, " +
				"or request the interface with the annotation of the network plugin.",
		},
	}
}

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

func checkSocketInterface(_ *input, w *labeledWorkload) []issue {
	// The network plugin gives the same names to all pods of a cluster.
	if !w.hasMultiplePods() || !w.admitted.Template().Spec.HostNetwork {
		return nil
	}
	var issues []issue
	for _, s := range w.interfaceSettings() {
		isHardwareName := func(name string) bool { return name != "lo" && !podInterfacePattern.MatchString(name) }
		if w.unavailableInterface(s) == "" && slices.ContainsFunc(s.interfaces, isHardwareName) {
			issues = append(issues, issue{
				field: s.field,
				message: fmt.Sprintf("%s is %s, so the program works only on nodes with this interface and uses no other",
					s.variable, s.value),
				fix: "remove it, because the interface is selected automatically",
			})
		}
	}
	return issues
}

func checkNodeInterface(_ *input, w *labeledWorkload) []issue {
	if !w.hasMultiplePods() {
		return nil
	}
	var issues []issue
	for _, s := range w.interfaceSettings() {
		name := w.unavailableInterface(s)
		if name == "" {
			continue
		}
		reason := fmt.Sprintf("but a pod without hostNetwork does not have the interface %s", name)
		if name == "lo" {
			reason = "which does not reach other pods"
		}
		issues = append(issues, issue{
			field:   s.field,
			message: fmt.Sprintf("%s is %s, %s", s.variable, s.value, reason),
			fix:     "remove it, because the interface is selected automatically",
		})
	}
	return issues
}
