package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// networkPolicyAgentName is the name of the program that enforces NetworkPolicies on a node.
	networkPolicyAgentName = "kube-router"
	// networkPolicyHealthPort is the default of kube-router.
	networkPolicyHealthPort = 20244
)

var (
	networkPolicyAgent = component{
		name: networkPolicyAgentName, module: "github.com/cloudnativelabs/kube-router/v2",
		mainPackage: "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
	}
	networkPolicyPrograms = []systemProgram{{"ipset", "ipset"}}
)

// bridgeFilter is the kernel setting with which the packet filter sees packets between pods of one node.
const bridgeFilter = "net/bridge/bridge-nf-call-iptables"

// EnforceNetworkPolicies starts the firewall of kube-router on each real node. Later nodes have it too. Without it, a
// NetworkPolicy has no effect. The first call builds kube-router. It stops with the cluster.
func (c *Cluster) EnforceNetworkPolicies(ctx context.Context) error {
	if c.state.Nodes != Real {
		return fmt.Errorf("enforcing NetworkPolicies: cluster %s has nodes of kind %q", c.state.Name, c.state.Nodes)
	}
	if c.state.NetworkPolicyAgent != "" {
		return nil
	}
	if err := installMissingPrograms(ctx, c.progress, networkPolicyPrograms); err != nil {
		return err
	}
	path, err := networkPolicyAgent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	c.state.NetworkPolicyAgent = path
	if err := c.state.saveTo(c.dir); err != nil {
		return err
	}
	for _, n := range listRealNodes(c.dir) {
		if err := c.startNetworkPolicyAgent(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// startNetworkPolicyAgent starts kube-router on a node of a cluster that enforces NetworkPolicies.
func (c *Cluster) startNetworkPolicyAgent(ctx context.Context, n realNode) error {
	if n.isMachine() {
		if err := c.setSysctls(map[string]string{bridgeFilter: "1"}); err != nil {
			return err
		}
	} else if _, err := n.runCommand("sh", "-c", "echo 1 > /proc/sys/"+bridgeFilter); err != nil {
		return fmt.Errorf("filtering packets of the bridge of node %s: %w", n.name(), err)
	}
	agent := program{
		Name: n.component(networkPolicyAgentName), Path: c.state.NetworkPolicyAgent, Network: n.networkFile(),
		Args: []string{
			"--kubeconfig=" + c.Kubeconfig(), "--hostname-override=" + n.name(),
			"--run-firewall=true", "--run-router=false", "--run-service-proxy=false",
			"--service-cluster-ip-range=" + serviceCIDR,
			"--health-port=" + strconv.Itoa(networkPolicyHealthPort),
		},
	}
	if err := c.startProgram(agent); err != nil {
		return err
	}
	return c.waitForNetworkPolicyAgent(ctx, n)
}

// waitForNetworkPolicyAgent waits until the rules of a node are installed.
func (c *Cluster) waitForNetworkPolicyAgent(ctx context.Context, n realNode) error {
	return c.waitForHealth(ctx, n, networkPolicyAgentName, networkPolicyHealthPort, "/healthz")
}

// removeAddressSets removes the sets of addresses that the rules of kube-router used. Rules refer to them, so the rules
// must have been removed. A node that is a network namespace loses its sets with the namespace.
func removeAddressSets() error {
	if !isFile(findProgram("ipset")) {
		return nil
	}
	names, err := runCommand("ipset", "list", "-name")
	if err != nil {
		return fmt.Errorf("listing sets of addresses: %w", err)
	}
	var errs []error
	for name := range strings.FieldsSeq(names) {
		if !isKubeRouterSet(name) {
			continue
		}
		if _, err := runCommand("ipset", "destroy", name); err != nil {
			errs = append(errs, fmt.Errorf("removing the set of addresses %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// isKubeRouterSet reports whether a set of addresses has a name of kube-router: "KUBE-SRC-..." or "kube-router-...",
// and for IPv6 with the prefix "inet6:".
func isKubeRouterSet(name string) bool {
	name = strings.TrimPrefix(name, "inet6:")
	return strings.HasPrefix(name, kubernetesChainPrefix) || strings.HasPrefix(name, networkPolicyAgentName)
}
