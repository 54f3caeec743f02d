package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// podsCgroup is the control group of the kubelet's pods in each hierarchy.
	podsCgroup = "kubepods"
)

// killContainers kills all processes in pods of a node and their shims, and waits until they have exited.
func killContainers(n realNode) error {
	var doomed []processID
	for _, group := range findCgroups(n.podsCgroup()) {
		doomed = append(doomed, listCgroupProcesses(group)...)
	}
	doomed = append(doomed, findShims(containerdSocket(n.dir()))...)
	for _, process := range doomed {
		if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing the processes of pods: %w", err)
		}
	}
	for end := time.Now().Add(killTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
		if !slices.ContainsFunc(doomed, processID.isAlive) {
			return removeShimSockets(n.dir())
		}
	}
	return fmt.Errorf("killing the processes of pods: they still exist after %s", killTimeout)
}

// listCgroupProcesses returns the processes of a control group and of its descendants. Groups may
// disappear meanwhile.
func listCgroupProcesses(group string) []processID {
	var found []processID
	_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "cgroup.procs" {
			found = append(found, readCgroupProcs(path)...)
		}
		return nil
	})
	return found
}

// readCgroupProcs returns the processes whose IDs are in a file.
func readCgroupProcs(path string) []processID {
	var found []processID
	data, _ := os.ReadFile(path)
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 {
			continue
		}
		if start, _, err := readProcStat(pid); err == nil {
			found = append(found, processID{PID: pid, Start: start})
		}
	}
	return found
}

// findShims returns containerd's shim processes, one per pod. They outlive containerd by design.
// Their arguments contain the socket of the cluster.
func findShims(socket string) []processID {
	var found []processID
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		args := strings.Split(string(data), "\x00")
		if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") || !slices.Contains(args, socket) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if start, _, err := readProcStat(pid); err == nil {
			found = append(found, processID{PID: pid, Start: start})
		}
	}
	return found
}

// listPodDirs returns containerd's directories of pods and containers. Their names are the IDs.
func listPodDirs(dir string) []string {
	dirs, _ := filepath.Glob(filepath.Join(containerdStateDir(dir), "io.containerd.runtime.v2.task", "*", "*"))
	return dirs
}

// removeShimSockets removes the sockets of killed shims from a directory that all containerds of
// the machine share. The node's own directory lists its sockets.
func removeShimSockets(dir string) error {
	for _, podDir := range listPodDirs(dir) {
		data, err := os.ReadFile(filepath.Join(podDir, "address"))
		if err != nil {
			continue
		}
		socket := strings.TrimPrefix(strings.TrimSpace(string(data)), "unix://")
		if err := removeIfExists(socket); err != nil {
			return fmt.Errorf("removing a shim's socket: %w", err)
		}
	}
	return nil
}

// unmountUnder unmounts all mounts below dir in reverse order.
func unmountUnder(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("listing the mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// The fifth field of proc_pid_mountinfo(5) is the mount point. Its spaces are encoded in
		// octal.
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		if strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("listing the mounts: %w", err)
	}
	var errs []error
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !isNotExist(err) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// findCgroups returns the directories of the control group with that name: one in version 2, one
// per hierarchy in version 1.
func findCgroups(name string) []string {
	first, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", name))
	second, _ := filepath.Glob(filepath.Join(cgroupRoot, name))
	return append(first, second...)
}

// removeCgroups removes a control group and its descendants in each hierarchy. They must not
// contain processes.
func removeCgroups(name string) error {
	var errs []error
	for _, group := range findCgroups(name) {
		var dirs []string
		_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, path := range slices.Backward(dirs) {
			if err := removeCgroup(path); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// removeCgroup removes one empty group. The kernel returns EBUSY for a moment after its last
// process exited.
func removeCgroup(cgroup string) error {
	var err error
	for end := time.Now().Add(killTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
		if err = syscall.Rmdir(cgroup); err == nil || isNotExist(err) {
			return nil
		}
	}
	return fmt.Errorf("removing the control group %s: %w", cgroup, err)
}

// removeBridge removes the bridge and the host interfaces of pods on it.
func removeBridge() error {
	ports, _ := filepath.Glob(filepath.Join("/sys/class/net", bridgeName, "brif", "*"))
	for _, link := range append(ports, bridgeName) {
		if err := removeLink(filepath.Base(link)); err != nil {
			return err
		}
	}
	return nil
}

// removeLink removes a network link if it exists.
func removeLink(link string) error {
	path := filepath.Join("/sys/class/net", link)
	if _, err := os.Stat(path); isNotExist(err) {
		return nil
	}
	if _, err := runCommand("ip", "link", "delete", link); err != nil {
		if _, gone := os.Stat(path); isNotExist(gone) {
			return nil // the kernel deletes the interface together with the network of its pod
		}
		return fmt.Errorf("removing the network link %s: %w", link, err)
	}
	return nil
}
