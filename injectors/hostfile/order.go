package hostfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/agent"
	"rollcall.training/plan"
)

// OrderKey is the key of the hosts in the ConfigMap with their order.
const OrderKey = "hosts"

// OrderName returns the name of the ConfigMap with the order of the launcher's hosts; empty if the launcher uses the
// order of the indexes. The name contains the number of hosts of each workload. A ConfigMap that is left by another
// gang of the same name then contains the same hosts in another order, with which the gang runs as well.
func OrderName(g gang.Gang) string {
	if len(g.RankOrder) == 0 || g.Role != gang.RoleLauncher {
		return ""
	}
	name := g.Name + "-rollcall-hosts"
	for _, m := range g.HostMembers() {
		name += fmt.Sprintf("-%d", m.Size)
	}
	return name
}

// NewHostsEnv returns the variable with the hosts. The kubelet does not start the container before the ConfigMap with
// their order exists.
func NewHostsEnv(g gang.Gang, hosts []gang.Member) plan.Env {
	out := plan.LiteralEnv(agent.EnvHosts, "")
	if name := OrderName(g); name != "" {
		out.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: OrderKey,
		}}
		return out
	}
	out.Value = FormatMembers(hosts)
	return out
}

// Host is a pod of a gang on a node.
type Host struct {
	// Workload and Index identify the pod.
	Workload string
	Index    int32
	// Location contains the values of labels of the node, from the largest part of the network to the smallest, and the
	// name of the node.
	Location []string
}

// FormatOrder returns the hosts in the order of their locations, in the format of [FormatMembers]. If keepsFirst is
// true, the first host stays the first, and the order starts at its location. Otherwise all hosts are sorted. The hosts
// of each part of the network are consecutive in both cases.
func FormatOrder(hosts []Host, keepsFirst bool) string {
	sorted, start := slices.Clone(hosts), []string(nil)
	toSort := sorted
	if keepsFirst && len(sorted) > 0 {
		start, toSort = sorted[0].Location, sorted[1:]
	}
	slices.SortFunc(toSort, func(a, b Host) int { return compareLocations(a, b, start) })
	var lines []string
	for i := 0; i < len(sorted); {
		first, last := sorted[i], sorted[i].Index
		for i++; i < len(sorted) && sorted[i].Workload == first.Workload && sorted[i].Index == last+1; i++ {
			last++
		}
		lines = append(lines, fmt.Sprintf("%s %d %d", first.Workload, first.Index, last))
	}
	return strings.Join(lines, "\n")
}

// compareLocations compares two hosts. Of two parts of the network, the one that contains start is the first.
func compareLocations(a, b Host, start []string) int {
	for i := range a.Location {
		x, y := a.Location[i], b.Location[i]
		containsStart := i < len(start) && slices.Equal(a.Location[:i], start[:i])
		switch {
		case x == y:
			continue
		case containsStart && x == start[i]:
			return -1
		case containsStart && y == start[i]:
			return 1
		}
		return cmp.Compare(x, y)
	}
	return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Index, b.Index))
}
