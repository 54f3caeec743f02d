package vet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func ofInterfaces() []Check {
	return []Check{
		{
			Code: CodeSocketInterface, Severity: Advice, gang: socketInterface,
			Title: "A network interface is named by hand",
			Why:   "NCCL and Gloo find the interface by themselves. One that is named ties the manifest to clusters that call it so, and keeps NCCL from all others, such as further interfaces for training that a cluster gives its pods.",
			Fix:   "Remove the variable; to keep some interfaces out of NCCL, exclude them: `^docker,lo`.",
		},
		{
			Code: CodeNodeInterface, Severity: Warning, gang: nodeInterface,
			Title: "The interface that is named is not one that pods have",
			Why:   "A pod has a network of its own, with lo and what the network plugin makes, mostly eth0. Names such as ens5 or ib0 are those of nodes: NCCL and Gloo then find no interface and end. At lo no other pod answers.",
			Fix:   "Remove the variable; or set `hostNetwork: true`, or ask for the interface with the network plugin's annotation, if the program needs it.",
		},
	}
}

// interfaceNames are the variables of NCCL, Gloo, TensorPipe and HCCL that name an
// interface.
var interfaceNames = []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME"}

// ofPods are names of interfaces that network plugins give pods: eth0, net1 of Multus.
var ofPods = regexp.MustCompile(`^(eth|net)[0-9]*$`)

// ownNetworks is the domain of annotations that give pods further interfaces.
const ownNetworks = "k8s.v1.cni.cncf.io/networks"

// named is a variable that names interfaces.
type named struct {
	field, variable, value string
	interfaces             []string
}

func (m *member) interfaces() []named {
	var out []named
	add := func(field, name, value string) {
		if slices.Contains(interfaceNames, name) && value != "" && !strings.HasPrefix(value, "^") {
			out = append(out, named{field: field, variable: name, value: value, interfaces: strings.Split(strings.TrimPrefix(value, "="), ",")})
		}
	}
	for _, c := range m.trainers() {
		for i, e := range c.Env {
			if v, ok := value(e); ok {
				add(fmt.Sprintf("%s.env[%d].value", c.path, i), e.Name, v)
			}
		}
		for _, a := range c.command().assigned {
			add(c.path+".command", a.name, a.value)
		}
	}
	return out
}

// foreign is an interface of those named that the workload's pods cannot use; empty when
// one of them may be there.
func (m *member) foreign(n named) string {
	spec := m.admitted.Template().Spec
	if _, more := m.admitted.Template().Annotations[ownNetworks]; more {
		return ""
	}
	for _, name := range n.interfaces {
		if name != "lo" && (spec.HostNetwork || ofPods.MatchString(name)) {
			return ""
		}
	}
	return n.interfaces[0]
}

func socketInterface(_ *input, m *member) []remark {
	if !m.several() {
		return nil
	}
	var out []remark
	for _, n := range m.interfaces() {
		if m.foreign(n) == "" {
			out = append(out, say(n.field, "%s is %s: the program works where interfaces are called so, and uses no other", n.variable, n.value).
				do("remove it; the interface is found without")...)
		}
	}
	return out
}

func nodeInterface(_ *input, m *member) []remark {
	if !m.several() {
		return nil
	}
	var out []remark
	for _, n := range m.interfaces() {
		switch name := m.foreign(n); {
		case name == "lo":
			out = append(out, say(n.field, "%s is lo, at which no other pod answers", n.variable).do("remove it")...)
		case name != "":
			out = append(out, say(n.field, "%s is %s, and a pod without hostNetwork has no interface %s", n.variable, n.value, name).
				do("remove it; the interface is found without")...)
		}
	}
	return out
}
