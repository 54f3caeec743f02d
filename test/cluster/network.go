package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// podCIDR is the range of pods. See serviceCIDR.
	podCIDR = "198.18.0.0/16"
	// bridgeIP is the address of this machine on the pod network: the address of the first node, of the
	// API server and of DNS. Kubernetes rejects a loopback address for a node.
	bridgeIP = "198.18.0.1"
	// bridgeName is the name of the bridge of each node's pods.
	bridgeName = "rollcall-test"
	// networkName is the name of the CNI network of all real nodes.
	networkName = "rollcall-test"
	// linkPrefix and the number of a further node are the name of the machine's end of the link to it.
	linkPrefix = "rollcall-n"
)

// createNetwork creates the bridge of this machine. It must have its address before any component listens
// on it.
func (c *Cluster) createNetwork() error {
	storeName := "containerd"
	if UsesNewContainerd() {
		storeName = "containerd-new" // a former version cannot read its database
	}
	store, err := ensureCacheDir(storeName)
	if err != nil {
		return err
	}
	c.state.Machine = &machineState{ImageStore: store, Sysctls: map[string]string{}}
	if err := c.state.saveTo(c.dir); err != nil {
		return err
	}
	machine := realNode{clusterDir: c.dir, number: 1}
	// The prefix of the address is that of podCIDR: addresses of unknown pods must not leave the machine.
	if err := machine.createBridge("/16"); err != nil {
		return err
	}
	if err := acceptPackets(bridgeName); err != nil {
		return err
	}
	// This machine routes packets between pods through Services.
	if err := c.setSysctls(map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	return machine.writeCNIConfig()
}

// createBridge creates the bridge of the node's pods with the address of the node.
func (n realNode) createBridge(prefix string) error {
	return n.runIP(
		"link add "+bridgeName+" address "+n.mac()+" type bridge",
		"addr add "+n.ip()+prefix+" dev "+bridgeName,
		"link set "+bridgeName+" up",
		// Addresses of unknown Services must not leave the machine through the default route.
		"route add "+serviceCIDR+" dev "+bridgeName,
	)
}

// runIP runs commands of the program ip in the network of the node.
func (n realNode) runIP(commands ...string) error {
	for _, command := range commands {
		if _, err := n.runCommand("ip", strings.Fields(command)...); err != nil {
			return fmt.Errorf("changing the network of node %s: %w", n.name(), err)
		}
	}
	return nil
}

// acceptPackets accepts the packets from a link. A firewall or a container engine of the machine may drop
// packets of unknown networks.
func acceptPackets(link string) error {
	for _, chain := range []string{"INPUT", "FORWARD"} {
		if _, err := runCommand("iptables", "-I", chain, "-i", link, "-j", "ACCEPT"); err != nil {
			return fmt.Errorf("accepting packets of the pod network: %w", err)
		}
	}
	return nil
}

// writeCNIConfig writes the configuration of the CNI plugins: an interface on the bridge for each
// pod, an address of the node's range, and a default route to the node. The bridge already exists, so
// the plugin does not configure it.
func (n realNode) writeCNIConfig() error {
	config := map[string]any{
		"cniVersion": "1.0.0",
		"name":       networkName,
		"plugins": []any{map[string]any{
			"type":   "bridge",
			"bridge": bridgeName,
			// A pod must reach itself through a Service.
			"hairpinMode": true,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": filepath.Join(n.dir(), "cni", "addresses"),
				"ranges": []any{[]any{map[string]any{
					"subnet": n.podRange(), "rangeStart": n.firstPodIP(), "gateway": n.ip(),
				}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
			},
		}},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the CNI configuration: %w", err)
	}
	if err := os.MkdirAll(n.cniConfigDir(), 0o700); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(n.cniConfigDir(), "10-rollcall.conflist"), data, 0o600); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return nil
}

func (n realNode) cniConfigDir() string { return filepath.Join(n.dir(), "cni", "config") }

// runCommand runs a program of the machine and returns its standard output. The error contains its
// standard error.
func runCommand(name string, args ...string) (string, error) {
	return runCommandWithInput("", name, args...)
}

func runCommandWithInput(input, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(findProgram(name), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s",
			name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// findProgram returns the path of a program. It also searches the directories of root, which may be
// missing in PATH.
func findProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, name); isFile(path) {
			return path
		}
	}
	return name
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
