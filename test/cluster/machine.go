package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// machineDir is where a Real cluster marks this machine as taken, for all users: its address, bridge and packet
// filter rules are fixed, so there can be one only. The folder is emptied by a reboot, as is all that it stands for.
const machineDir = "/run/rollcall-test"

// CanRunReal returns nil if this process may start a Real cluster, else an error which says what is missing.
func CanRunReal() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("real nodes need Linux, and this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("real nodes need root, for containers, mounts and a network bridge: run this as root, or use simulated nodes")
	}
	return nil
}

// lockMachine makes starting and cleaning Real clusters happen once at a time.
func lockMachine() (unlock func(), err error) {
	if err := os.MkdirAll(machineDir, 0o700); err != nil {
		return nil, fmt.Errorf("marking the machine: %w", err)
	}
	return lock(filepath.Join(machineDir, "lock"))
}

func machineClaim() string { return filepath.Join(machineDir, "cluster") }

// claimMachine takes the machine for the cluster in dir, or says which cluster has it. The caller holds lockMachine
// until that cluster's state is saved.
func claimMachine(dir string) error {
	owner, err := claimant()
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("a cluster with real nodes is running already, and a machine can have one only: its folder is %s. "+
			"Stop it first, with \"cluster down\" if it was started by that command", owner)
	}
	if err := foreignKubernetes(); err != nil {
		return err
	}
	if err := os.WriteFile(machineClaim(), []byte(dir), 0o600); err != nil {
		return fmt.Errorf("marking the machine: %w", err)
	}
	return nil
}

// claimant returns the folder of the running cluster that has the machine, or "".
func claimant() (string, error) {
	data, err := os.ReadFile(machineClaim())
	if missing(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking who has the machine: %w", err)
	}
	dir := strings.TrimSpace(string(data))
	s, err := loadState(dir)
	if missing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !s.running() {
		return "", nil
	}
	return dir, nil
}

// releaseMachine gives the machine back if the cluster in dir has it.
func releaseMachine(dir string) error {
	data, err := os.ReadFile(machineClaim())
	if err == nil && strings.TrimSpace(string(data)) == dir {
		err = os.Remove(machineClaim())
	}
	if err != nil && !missing(err) {
		return fmt.Errorf("giving the machine back: %w", err)
	}
	return nil
}

// foreignKubernetes refuses a machine on which another Kubernetes runs: its kubelet and kube-proxy would fight ours over
// the same rules and control groups. All of ours is gone when this is asked.
func foreignKubernetes() error {
	for _, group := range append(controlGroups(podsGroup), controlGroups(podsGroup+".slice")...) {
		return fmt.Errorf("another Kubernetes seems to run on this machine: there is the control group %s", group)
	}
	for _, port := range []struct {
		number int
		what   string
	}{{kubeletPort, "the kubelet"}, {proxyHealthPort, "kube-proxy"}, {proxyMetricsPort, "kube-proxy"}} {
		if err := claimPort("0.0.0.0", port.number, port.what); err != nil {
			return err
		}
	}
	return nil
}

// setSysctls changes kernel settings by their path below /proc/sys, and remembers in the state what they were.
func (c *Cluster) setSysctls(values map[string]string) error {
	for name, value := range values {
		path := filepath.Join("/proc/sys", name)
		old, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the kernel setting %s: %w", name, err)
		}
		former := strings.TrimSpace(string(old))
		if former == value {
			continue
		}
		c.state.Machine.Sysctls[name] = former
		if err := c.state.save(c.dir); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("changing the kernel setting %s to %s: %w", name, value, err)
		}
	}
	return nil
}
