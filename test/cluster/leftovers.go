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
	// podsGroup is the control group that the kubelet makes for its pods, in each hierarchy.
	podsGroup = "kubepods"
)

// killContainers kills all processes in pods, and then the shims that watch over them, and waits until they are gone.
func killContainers(dir string) error {
	var doomed []processID
	for _, group := range controlGroups(podsGroup) {
		doomed = append(doomed, processesBelow(group)...)
	}
	doomed = append(doomed, shims(containerdSocket(dir))...)
	for _, process := range doomed {
		if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing what ran in a pod: %w", err)
		}
	}
	for end := time.Now().Add(killed); time.Now().Before(end); time.Sleep(poll) {
		if !slices.ContainsFunc(doomed, processID.alive) {
			return removeShimSockets(dir)
		}
	}
	return fmt.Errorf("killing what ran in pods: it is still there after %s", killed)
}

// processesBelow returns the processes of a control group and of all groups in it. Groups go while we look.
func processesBelow(group string) []processID {
	var found []processID
	_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "cgroup.procs" {
			found = append(found, processesIn(path)...)
		}
		return nil
	})
	return found
}

// processesIn returns the processes whose numbers are in a file.
func processesIn(path string) []processID {
	var found []processID
	data, _ := os.ReadFile(path)
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 {
			continue
		}
		if start, _, err := procStat(pid); err == nil {
			found = append(found, processID{PID: pid, Start: start})
		}
	}
	return found
}

// shims returns containerd's helper processes, one a pod, which outlive it on purpose. They are known by our socket.
func shims(socket string) []processID {
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
		if start, _, err := procStat(pid); err == nil {
			found = append(found, processID{PID: pid, Start: start})
		}
	}
	return found
}

// podFolders returns containerd's folders of pods and containers, which are named by their identifiers.
func podFolders(dir string) []string {
	folders, _ := filepath.Glob(filepath.Join(containerdState(dir), "io.containerd.runtime.v2.task", "*", "*"))
	return folders
}

// removeShimSockets removes the sockets of killed shims. They are in a folder that all containerds of a machine share;
// which are ours is written in our own.
func removeShimSockets(dir string) error {
	for _, folder := range podFolders(dir) {
		data, err := os.ReadFile(filepath.Join(folder, "address"))
		if err != nil {
			continue
		}
		socket := strings.TrimPrefix(strings.TrimSpace(string(data)), "unix://")
		if err := removeIfThere(socket); err != nil {
			return fmt.Errorf("removing a shim's socket: %w", err)
		}
	}
	return nil
}

// unmountBelow unmounts everything that is mounted below dir, the last mounted first.
func unmountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("listing the mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// The fifth field of proc_pid_mountinfo(5); spaces in it are written in octal.
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
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !missing(err) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// controlGroups returns the folders of a control group of that name, in each hierarchy of version 1 or in version 2.
func controlGroups(name string) []string {
	first, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", name))
	second, _ := filepath.Glob(filepath.Join(cgroupRoot, name))
	return append(first, second...)
}

// removeControlGroups removes a control group and all in it, in each hierarchy. No process may be left in it.
func removeControlGroups(name string) error {
	var errs []error
	for _, group := range controlGroups(name) {
		var folders []string
		_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		for _, folder := range slices.Backward(folders) {
			if err := removeControlGroup(folder); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// removeControlGroup removes one empty group. The kernel calls it busy for a moment after its last process ended.
func removeControlGroup(folder string) error {
	var err error
	for end := time.Now().Add(killed); time.Now().Before(end); time.Sleep(poll) {
		if err = syscall.Rmdir(folder); err == nil || missing(err) {
			return nil
		}
	}
	return fmt.Errorf("removing the control group %s: %w", folder, err)
}

// removeBridge removes the bridge and the pods' ends that still hang on it.
func removeBridge() error {
	ports, _ := filepath.Glob(filepath.Join("/sys/class/net", bridge, "brif", "*"))
	for _, link := range append(ports, bridge) {
		link = filepath.Base(link)
		if _, err := os.Stat(filepath.Join("/sys/class/net", link)); missing(err) {
			continue
		}
		if _, err := run("ip", "link", "delete", link); err != nil {
			if _, gone := os.Stat(filepath.Join("/sys/class/net", link)); missing(gone) {
				continue // A pod's end goes by itself when its network does.
			}
			return fmt.Errorf("removing the network link %s: %w", link, err)
		}
	}
	return nil
}
