package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// uplinkName is the name of a further node's end of its link to this machine.
const uplinkName = "rollcall-up"

// link is the name of the machine's end of the link to the node.
func (n realNode) link() string { return n.cgroup() }

// createNetworkNamespace creates the network of a further node: a namespace with the bridge of its pods,
// and a link to this machine. This machine routes packets between nodes, like a router of a data center.
func (n realNode) createNetworkNamespace() error {
	if err := os.WriteFile(n.networkFile(), nil, 0o600); err != nil {
		return fmt.Errorf("creating the network of node %s: %w", n.name(), err)
	}
	if _, err := runCommand("unshare", "--net="+n.networkFile(), "true"); err != nil {
		return fmt.Errorf("creating the network of node %s: %w", n.name(), err)
	}
	if err := n.runIP("link set lo up"); err != nil {
		return err
	}
	if err := n.createBridge("/20"); err != nil {
		return err
	}
	machine := realNode{clusterDir: n.clusterDir, number: 1}
	if err := machine.runIP(
		"link add "+n.link()+" type veth peer name "+uplinkName,
		"link set "+uplinkName+" netns "+n.networkFile(),
	); err != nil {
		return err
	}
	if err := acceptPackets(n.link()); err != nil {
		return err
	}
	if _, err := n.runCommand("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"); err != nil {
		return fmt.Errorf("enabling routing on node %s: %w", n.name(), err)
	}
	return n.connectLink()
}

// connectLink connects the node and this machine, and adds the routes. The link has no addresses of its
// own: each end uses the address of its bridge.
func (n realNode) connectLink() error {
	machine := realNode{clusterDir: n.clusterDir, number: 1}
	if err := machine.runIP(
		"link set "+n.link()+" up",
		"route replace "+n.podRange()+" via "+n.ip()+" dev "+n.link()+" onlink src "+bridgeIP,
	); err != nil {
		return err
	}
	return n.runIP(
		"link set "+uplinkName+" up",
		"route replace default via "+bridgeIP+" dev "+uplinkName+" onlink src "+n.ip(),
	)
}

// disconnectLink cuts the link. Processes and pods of the node keep their networks.
func (n realNode) disconnectLink() error {
	return realNode{clusterDir: n.clusterDir, number: 1}.runIP("link set " + n.link() + " down")
}

// createCgroups creates the parent of the control groups of a further node's pods in each hierarchy.
// The kubelet of the first node has already enabled the controllers of version 2.
func (n realNode) createCgroups() error {
	hierarchies, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if isFile(filepath.Join(cgroupRoot, "cgroup.controllers")) {
		hierarchies = []string{filepath.Join(cgroupRoot, "cgroup.procs")}
	}
	for _, file := range hierarchies {
		group := filepath.Join(filepath.Dir(file), n.cgroup())
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("creating the control group of node %s: %w", n.name(), err)
		}
		// In version 1, a group without these values accepts no process.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
			if err != nil {
				continue // another hierarchy, or version 2
			}
			if err := os.WriteFile(filepath.Join(group, name), value, 0); err != nil {
				return fmt.Errorf("creating the control group of node %s: %w", n.name(), err)
			}
		}
	}
	return nil
}
