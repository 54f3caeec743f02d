package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// findFurtherNode returns a node that is not this machine, which also runs the control plane.
func (c *Cluster) findFurtherNode(name string) (realNode, error) {
	n, err := c.findNode(name)
	if err == nil && n.isMachine() {
		err = fmt.Errorf("node %s is this machine and runs the control plane: choose another node", name)
	}
	return n, err
}

// StopNode terminates the kubelet and containerd of a real node. Its containers, its network and
// kube-proxy keep running, so Kubernetes loses the node but its pods still work. Programs that print more
// than 64 KiB block. StartNode undoes it.
func (c *Cluster) StopNode(name string) error {
	n, err := c.findNode(name)
	if err != nil {
		return err
	}
	return c.terminateComponents(n, "kubelet", containerdName)
}

// KillNode ends all programs and containers of a further node without a grace period, and cuts its link, as
// a power failure does. The node keeps its images. StartNode undoes it, and the containers are then lost.
func (c *Cluster) KillNode(name string) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	if err := n.disconnectLink(); err != nil {
		return err
	}
	for _, component := range nodeComponents {
		process, isAlive := c.state.findProcess(n.component(component))
		if !isAlive {
			continue
		}
		if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing %s: %w", process.Name, err)
		}
	}
	// The programs are killed already. This waits until they have exited.
	if err := errors.Join(
		c.terminateComponents(n, nodeComponents...),
		killContainers(n),
		unmountUnder(n.dir()),
		removeCNIResults(n.dir()),
		removeCgroups(n.podsCgroup()),
	); err != nil {
		return err
	}
	// A machine loses this directory as well, because it is in memory.
	if err := os.RemoveAll(containerdStateDir(n.dir())); err != nil {
		return fmt.Errorf("removing the state of containerd: %w", err)
	}
	return nil
}

// StartNode undoes StopNode and KillNode, and connects the node. It returns when the node is ready.
func (c *Cluster) StartNode(ctx context.Context, name string) error {
	n, err := c.findNode(name)
	if err != nil {
		return err
	}
	if !n.isMachine() {
		if err := n.connectLink(); err != nil {
			return err
		}
	}
	waits := map[string]func(context.Context, realNode) error{
		containerdName: c.waitForContainerd, "kubelet": c.waitForKubelet, "kube-proxy": c.waitForKubeProxy,
		networkPolicyAgentName: c.waitForNetworkPolicyAgent,
	}
	for _, component := range nodeComponents {
		process, isAlive := c.state.findProcess(n.component(component))
		if process.Name == "" {
			continue // the cluster does not enforce NetworkPolicies
		}
		if !isAlive {
			if err := c.startProgram(process.program); err != nil {
				return err
			}
		}
		if err := waits[component](ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// CutNode cuts the link of a further node. Its programs and containers keep running, and its pods reach
// each other. HealNode undoes it.
func (c *Cluster) CutNode(name string) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	return n.disconnectLink()
}

// Slowness is what SlowNode does to the packets of a node, in the units of tc(8). An empty field changes
// nothing. Delay and Loss need a kernel with the network emulator (CONFIG_NET_SCH_NETEM).
type Slowness struct {
	// Rate is the bandwidth, for example "1mbit".
	Rate string
	// Delay is added to each packet, for example "50ms".
	Delay string
	// Loss is the part of packets that are dropped, for example "5%".
	Loss string
}

// queue returns the arguments of tc for a queue. Without delay and loss, every kernel has it.
func (s Slowness) queue() []string {
	if s.Delay == "" && s.Loss == "" {
		return []string{"tbf", "rate", s.Rate, "burst", "16kb", "latency", "200ms"}
	}
	queue := []string{"netem"}
	for _, option := range [][2]string{{"delay", s.Delay}, {"loss", s.Loss}, {"rate", s.Rate}} {
		if option[1] != "" {
			queue = append(queue, option[0], option[1])
		}
	}
	return queue
}

// SlowNode makes the link of a further node slow in both directions. HealNode undoes it.
func (c *Cluster) SlowNode(name string, s Slowness) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	if s == (Slowness{}) {
		return fmt.Errorf("making the link of node %s slow: a rate, a delay or a loss is required", name)
	}
	args := func(link string) []string {
		return append([]string{"qdisc", "replace", "dev", link, "root"}, s.queue()...)
	}
	if _, err := runCommand("tc", args(n.link())...); err != nil {
		return fmt.Errorf("making the link of node %s slow: %w", name, err)
	}
	if _, err := n.runCommand("tc", args(uplinkName)...); err != nil {
		return fmt.Errorf("making the link of node %s slow: %w", name, err)
	}
	return nil
}

// HealNode undoes CutNode and SlowNode.
func (c *Cluster) HealNode(name string) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	for _, end := range []struct {
		node realNode
		link string
	}{{realNode{clusterDir: c.dir, number: 1}, n.link()}, {n, uplinkName}} {
		queues, err := end.node.runCommand("tc", "qdisc", "show", "dev", end.link)
		if err == nil && (strings.Contains(queues, " tbf ") || strings.Contains(queues, "netem ")) {
			_, err = end.node.runCommand("tc", "qdisc", "delete", "dev", end.link, "root")
		}
		if err != nil {
			return fmt.Errorf("healing the link of node %s: %w", name, err)
		}
	}
	return n.connectLink()
}

// CordonNode keeps new pods from the node. UncordonNode undoes it.
func (c *Cluster) CordonNode(ctx context.Context, name string) error {
	_, err := c.Kubectl(ctx, "cordon", name)
	return err
}

// DrainNode cordons the node, evicts its pods, and returns when they have terminated. UncordonNode undoes
// it.
func (c *Cluster) DrainNode(ctx context.Context, name string) error {
	// Rollcall adds an emptyDir volume to each pod of a gang.
	_, err := c.Kubectl(ctx, "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
	return err
}

// UncordonNode undoes CordonNode and DrainNode.
func (c *Cluster) UncordonNode(ctx context.Context, name string) error {
	_, err := c.Kubectl(ctx, "uncordon", name)
	return err
}
