package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// machineDir is the directory in which a Real cluster reserves this machine for all users. Its
// address, bridge and packet filter rules are fixed, so there can be only one. A reboot clears the
// directory together with everything that it records.
const machineDir = "/run/rollcall-test"

// CanRunReal returns nil if this process may start a Real cluster. Otherwise it returns an error
// with the missing requirement.
func CanRunReal() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("real nodes need Linux, not %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New(
			"real nodes need root, for containers, mounts and a network bridge: run this as root, or use simulated nodes",
		)
	}
	return nil
}

// lockMachine serializes the start and the cleanup of Real clusters.
func lockMachine() (unlock func(), err error) {
	if err := os.MkdirAll(machineDir, 0o700); err != nil {
		return nil, fmt.Errorf("reserving the machine: %w", err)
	}
	return acquireLock(filepath.Join(machineDir, "lock"))
}

func machineOwnerFile() string { return filepath.Join(machineDir, "cluster") }

// acquireMachine reserves the machine for the cluster in dir. It returns an error that names the
// owner if another cluster is running. The caller holds lockMachine until the state of the cluster
// is saved.
func acquireMachine(dir string) error {
	owner, err := findMachineOwner()
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("a cluster with real nodes is already running in %s, and a machine can have only one. "+
			"Stop it first, with \"cluster down\" if it was started by that command", owner)
	}
	if err := checkNoOtherKubernetes(); err != nil {
		return err
	}
	if err := os.WriteFile(machineOwnerFile(), []byte(dir), 0o600); err != nil {
		return fmt.Errorf("reserving the machine: %w", err)
	}
	return nil
}

// findMachineOwner returns the directory of the running cluster that owns the machine, or "".
func findMachineOwner() (string, error) {
	data, err := os.ReadFile(machineOwnerFile())
	if isNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("finding the owner of the machine: %w", err)
	}
	dir := strings.TrimSpace(string(data))
	s, err := loadState(dir)
	if isNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !s.isInUse() {
		return "", nil
	}
	return dir, nil
}

// releaseMachine releases the machine if the cluster in dir owns it.
func releaseMachine(dir string) error {
	data, err := os.ReadFile(machineOwnerFile())
	if err == nil && strings.TrimSpace(string(data)) == dir {
		err = os.Remove(machineOwnerFile())
	}
	if err != nil && !isNotExist(err) {
		return fmt.Errorf("releasing the machine: %w", err)
	}
	return nil
}

// checkNoOtherKubernetes returns an error if another Kubernetes runs on the machine. Its kubelet
// and kube-proxy would manage the same rules and control groups. The caller must have stopped all
// clusters of this package.
func checkNoOtherKubernetes() error {
	for _, group := range append(findCgroups(podsCgroup), findCgroups(podsCgroup+".slice")...) {
		return fmt.Errorf("another Kubernetes seems to run on this machine: found the control group %s", group)
	}
	for _, port := range []struct {
		number int
		what   string
	}{{kubeletPort, "the kubelet"}, {proxyHealthPort, "kube-proxy"}, {proxyMetricsPort, "kube-proxy"}} {
		if err := checkPortFree("0.0.0.0", port.number, port.what); err != nil {
			return err
		}
	}
	return nil
}

// setSysctls changes kernel settings by their path below /proc/sys. It records the old values in
// the state.
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
		if err := c.state.saveTo(c.dir); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("changing the kernel setting %s to %s: %w", name, value, err)
		}
	}
	return nil
}
