package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// stopCluster stops a cluster, including one that failed to start, and removes everything that it
// created inside and outside of its directory. It can be called again after an error.
func stopCluster(ctx context.Context, dir string, s *clusterState) error {
	// Take the ownership, so that no other process cleans up the cluster while it is being stopped.
	s.Owner, s.Detached = currentProcess(), false
	if err := s.saveTo(dir); err != nil {
		return err
	}
	clean := map[int]bool{}
	hooks := map[string]func() error{}
	for _, n := range listRealNodes(dir) {
		hooks[n.component(containerdName)] = func() error {
			err := removePodSandboxes(ctx, n.dir())
			clean[n.number] = err == nil
			return err
		}
	}
	errs := []error{stopProcesses(s, hooks)}
	if s.Machine != nil {
		errs = append(errs, restoreMachine(dir, s, clean))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the cluster in %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the directory of the cluster: %w", err)
	}
	if s.Nodes == Real {
		return releaseMachine(dir)
	}
	return nil
}

// cleanUpBeforeStart removes the leftovers of every cluster whose owner is dead.
func (c *Cluster) cleanUpBeforeStart() error {
	unlock, err := lockClusters()
	if err != nil {
		return err
	}
	defer unlock()
	return cleanUpCrashedClusters(c.progress)
}

// Clean removes the leftovers of crashed clusters: processes, containers, mounts, the bridge,
// packet filter rules and files. It does not change running clusters. Up calls it before it starts
// a cluster.
//
// Clean writes one line to w for each cluster that it removes. w may be nil.
func Clean(w io.Writer) error {
	if w == nil {
		w = io.Discard
	}
	unlock, err := lockClusters()
	if err != nil {
		return err
	}
	defer unlock()
	return cleanUpCrashedClusters(newProgress(w))
}

func cleanUpCrashedClusters(p *progress) error {
	dirs, err := listClusterDirs()
	if err != nil {
		return err
	}
	// root may have started a Real cluster with another cache directory.
	if dir, err := os.ReadFile(machineOwnerFile()); err == nil && isFile(filepath.Join(string(dir), stateFileName)) {
		dirs = append(dirs, string(dir))
	}
	slices.Sort(dirs)
	var errs []error
	for _, dir := range slices.Compact(dirs) {
		s, err := loadState(dir)
		if isNotExist(err) {
			// A process crashed after it created the directory and before it saved the state. It
			// had started nothing.
			errs = append(errs, os.RemoveAll(dir))
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s.isInUse() {
			continue
		}
		what := fmt.Sprintf("cleaning up the crashed cluster %s of process %d", s.Name, s.Owner.PID)
		errs = append(errs, p.runStep(what, func() error { return stopCluster(context.Background(), dir, s) }))
	}
	return errors.Join(errs...)
}

// lockClusters serializes the start and the cleanup of this user's clusters.
func lockClusters() (unlock func(), err error) {
	base, err := ensureCacheDir("")
	if err != nil {
		return nil, err
	}
	return acquireLock(filepath.Join(base, "clusters.lock"))
}

// restoreMachine reverts all changes of the cluster in dir outside of its directory. The processes
// of the cluster must have exited. clean contains the numbers of the nodes whose pods were removed in order.
func restoreMachine(dir string, s *clusterState, clean map[int]bool) error {
	var errs []error
	for _, n := range slices.Backward(listRealNodes(dir)) {
		errs = append(errs, n.restoreMachine(clean[n.number], s.Machine.ImageStore))
	}
	errs = append(errs, removeLogLinks(dir))
	for name, value := range s.Machine.Sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			errs = append(errs, fmt.Errorf("restoring %s to %s: %w", name, value, err))
		}
	}
	return errors.Join(errs...)
}

// containerLogDir is the directory in which the kubelet creates links to the logs of all
// containers. It is not configurable.
const containerLogDir = "/var/log/containers"

// removeLogLinks removes the kubelet's links to logs in dir.
func removeLogLinks(dir string) error {
	entries, err := os.ReadDir(containerLogDir)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the links to containers' logs: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		link := filepath.Join(containerLogDir, entry.Name())
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(errs...)
}

// cniResultsDir is the directory in which the CNI library stores its results. It is not configurable.
const cniResultsDir = "/var/lib/cni/results"

// removeCNIResults removes the results that name a file below dir, as those of a node name the network namespace of
// their pod. A pod whose creation was interrupted may have only a result of the loopback plugin, and no state in
// containerd. Results of other programs stay.
func removeCNIResults(dir string) error {
	results, err := filepath.Glob(filepath.Join(cniResultsDir, "*"))
	if err != nil {
		return fmt.Errorf("listing results of CNI: %w", err)
	}
	for _, result := range results {
		text, err := os.ReadFile(result)
		if err == nil && bytes.Contains(text, []byte(dir+"/")) {
			err = os.Remove(result)
		}
		if err != nil && !isNotExist(err) {
			return fmt.Errorf("removing a result of CNI: %w", err)
		}
	}
	return nil
}

// devicePluginDir is the directory in which the kubelet listens for device plugins. It is not
// configurable.
const devicePluginDir = "/var/lib/kubelet/device-plugins"

// removeFixedPathFiles removes the cluster's files from directories that are not configurable. It
// keeps the files of other programs.
func removeFixedPathFiles(dir string) error {
	if err := removeIfExists(filepath.Join(devicePluginDir, "kubelet.sock")); err != nil {
		return fmt.Errorf("removing the kubelet's socket: %w", err)
	}
	if err := removeCNIResults(dir); err != nil {
		return err
	}
	for _, dir := range []string{
		devicePluginDir, filepath.Dir(devicePluginDir),
		cniResultsDir, filepath.Dir(cniResultsDir),
		"/run/containerd/s", "/run/containerd",
		containerLogDir,
	} {
		// The directory stays if it contains files of other programs. It may also not exist.
		_ = syscall.Rmdir(dir)
	}
	return nil
}
