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
	// podCIDR is the other half of the testing range: see serviceCIDR.
	podCIDR = "198.18.0.0/16"
	// bridgeIP is this machine on the pods' network: the node's address, and where API server and DNS listen. A loopback
	// address is refused for a node.
	bridgeIP = "198.18.0.1"
	// bridge is the network that the pods are plugged into.
	bridge = "rollcall-test"
	// bridgeMAC is fixed because a bridge otherwise takes over that of a port, and changes it as pods come and go. It is
	// of the locally administered range, and ends in the bridge's address.
	bridgeMAC = "02:00:c6:12:00:01"
)

// makeNetwork makes the bridge, which must have its address before anything can listen there.
func (c *Cluster) makeNetwork() error {
	store, err := cacheDir("containerd")
	if err != nil {
		return err
	}
	c.state.Machine = &machineState{ImageStore: store, Sysctls: map[string]string{}}
	if err := c.state.save(c.dir); err != nil {
		return err
	}
	for _, command := range []string{
		"link add " + bridge + " address " + bridgeMAC + " type bridge",
		"addr add " + bridgeIP + "/16 dev " + bridge,
		"link set " + bridge + " up",
		// Until kube-proxy knows a Service, and once it has forgotten it, the default route would lead out of this machine.
		"route add " + serviceCIDR + " dev " + bridge,
	} {
		if _, err := run("ip", strings.Fields(command)...); err != nil {
			return fmt.Errorf("making the pods' network: %w", err)
		}
	}
	// A firewall of the machine, or a container engine, may drop what it does not know.
	for _, chain := range []string{"INPUT", "FORWARD"} {
		if _, err := run("iptables", "-I", chain, "-i", bridge, "-j", "ACCEPT"); err != nil {
			return fmt.Errorf("letting the pods' packets through: %w", err)
		}
	}
	// Services are routed by this machine, from one pod to another.
	if err := c.setSysctls(map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	return c.writeCNI()
}

// writeCNI writes what containerd's CNI plugins do for each pod: an interface on the bridge, an address of the range,
// and a default route to this machine. The bridge is ours, so the plugin need not configure it.
func (c *Cluster) writeCNI() error {
	config := map[string]any{
		"cniVersion": "1.0.0",
		"name":       "rollcall-test",
		"plugins": []any{map[string]any{
			"type":   "bridge",
			"bridge": bridge,
			// A pod must reach itself through a Service.
			"hairpinMode": true,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": filepath.Join(c.dir, "cni", "addresses"),
				// The first 255 addresses are left to this machine.
				"ranges": []any{[]any{map[string]any{"subnet": podCIDR, "rangeStart": "198.18.1.0", "gateway": bridgeIP}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
			},
		}},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the CNI configuration: %w", err)
	}
	if err := os.MkdirAll(c.cniConfigDir(), 0o700); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.cniConfigDir(), "10-rollcall.conflist"), data, 0o600); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return nil
}

func (c *Cluster) cniConfigDir() string { return filepath.Join(c.dir, "cni", "config") }

// run runs a command of the machine and returns its output; the error holds what it says on standard error.
func run(name string, args ...string) (string, error) { return runInput("", name, args...) }

func runInput(input, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(lookPath(name), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// lookPath finds a program also where root's are, which a user's PATH may lack.
func lookPath(name string) string {
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
