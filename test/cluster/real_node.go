package cluster

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// maxRealNodes is the number of ranges of pod addresses. See podRange.
const maxRealNodes = 16

// realNode is a node of a Real cluster. The first node is this machine. Each further node is a network
// namespace of this machine with its own container runtime, kubelet and kube-proxy.
type realNode struct {
	// clusterDir is the directory of the cluster.
	clusterDir string
	// number counts from 1.
	number int
}

func (n realNode) isMachine() bool { return n.number == 1 }

// name is the name of the node in Kubernetes.
func (n realNode) name() string { return n.component(nodeName) }

// component returns the name of a program or a file of this node, for example "kubelet-2". The first node
// has no suffix.
func (n realNode) component(name string) string {
	if n.isMachine() {
		return name
	}
	return name + "-" + strconv.Itoa(n.number)
}

// dir is the directory of the node. Everything that the cleanup has to unmount is below it. The name is
// short, because paths of sockets are limited to 107 bytes.
func (n realNode) dir() string {
	if n.isMachine() {
		return n.clusterDir
	}
	return filepath.Join(n.clusterDir, "n"+strconv.Itoa(n.number))
}

// networkFile is the file on which the network namespace is mounted, or empty for that of this machine.
func (n realNode) networkFile() string {
	if n.isMachine() {
		return ""
	}
	return filepath.Join(n.clusterDir, "network-"+strconv.Itoa(n.number))
}

// ip is the address of the node, and the gateway of its pods. It is the address of the node's bridge.
func (n realNode) ip() string { return fmt.Sprintf("198.18.%d.1", n.rangeStart()) }

// podRange is the range of the node's pods. The ranges of all nodes are parts of podCIDR.
func (n realNode) podRange() string { return fmt.Sprintf("198.18.%d.0/20", n.rangeStart()) }

// firstPodIP is the first address of a pod. The first 255 addresses are reserved for the node.
func (n realNode) firstPodIP() string { return fmt.Sprintf("198.18.%d.0", n.rangeStart()+1) }

// rangeStart is the third byte of podRange.
func (n realNode) rangeStart() int { return (n.number - 1) * 256 / maxRealNodes }

// mac is the address of the node's bridge. It is fixed, because a bridge otherwise uses the address of a
// port and changes it with its pods. It is a locally administered address that ends with ip.
func (n realNode) mac() string { return fmt.Sprintf("02:00:c6:12:%02x:01", n.rangeStart()) }

// cgroup is the parent of the control groups of the node's pods, or empty for the root.
func (n realNode) cgroup() string {
	if n.isMachine() {
		return ""
	}
	return linkPrefix + strconv.Itoa(n.number)
}

// podsCgroup is the control group of the node's pods in each hierarchy.
func (n realNode) podsCgroup() string { return filepath.Join(n.cgroup(), podsCgroup) }

// imageStore is the directory of containerd's images, given that of the first node.
func (n realNode) imageStore(first string) string { return n.component(first) }

// program returns a program of Kubernetes or of containerd that runs in the network of the node.
func (n realNode) program(component, path string, args []string) program {
	p := program{Name: n.component(component), Path: path, Args: args, Network: n.networkFile()}
	if component != containerdName && !n.isMachine() {
		p.Args = append([]string{component}, args...) // selects the component
	}
	return p
}

// runCommand runs a program of the machine in the network of the node.
func (n realNode) runCommand(name string, args ...string) (string, error) {
	if n.isMachine() {
		return runCommand(name, args...)
	}
	return runCommand("nsenter", append([]string{"--net=" + n.networkFile(), "--", findProgram(name)}, args...)...)
}

// listRealNodes returns the nodes of the cluster in dir by number. A node exists from the creation of its
// directory, before anything else of it, to the removal of its directory, after everything else.
func listRealNodes(dir string) []realNode {
	nodes := []realNode{{clusterDir: dir, number: 1}}
	dirs, _ := filepath.Glob(filepath.Join(dir, "n[0-9]*"))
	for _, path := range dirs {
		if number, err := strconv.Atoi(filepath.Base(path)[1:]); err == nil {
			nodes = append(nodes, realNode{clusterDir: dir, number: number})
		}
	}
	slices.SortFunc(nodes, func(a, b realNode) int { return cmp.Compare(a.number, b.number) })
	return nodes
}

// findNode returns the real node of that name.
func (c *Cluster) findNode(name string) (realNode, error) {
	if c.state.Nodes == Real {
		for _, n := range listRealNodes(c.dir) {
			if n.name() == name {
				return n, nil
			}
		}
	}
	return realNode{}, fmt.Errorf("cluster %s has no real node %q", c.state.Name, name)
}

// RealNodes returns the names of the real nodes. The first node is this machine.
func (c *Cluster) RealNodes() []string {
	if c.state.Nodes != Real {
		return nil
	}
	var names []string
	for _, n := range listRealNodes(c.dir) {
		names = append(names, n.name())
	}
	return names
}

// createRealNodeDir creates the directory of a further node with the lowest free number.
func createRealNodeDir(clusterDir string) (realNode, error) {
	nodes := listRealNodes(clusterDir)
	number := 1
	for slices.ContainsFunc(nodes, func(n realNode) bool { return n.number == number }) {
		number++
	}
	if number > maxRealNodes {
		return realNode{}, fmt.Errorf("a cluster can have at most %d real nodes", maxRealNodes)
	}
	n := realNode{clusterDir: clusterDir, number: number}
	if err := os.Mkdir(n.dir(), 0o700); err != nil {
		return n, fmt.Errorf("creating the directory of the node: %w", err)
	}
	return n, nil
}
