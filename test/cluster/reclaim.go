package cluster

import (
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

// stopCluster stops a cluster, running or half dead, and removes all that it has outside and inside of its folder. It
// can be called again after it failed.
func stopCluster(ctx context.Context, dir string, s *state) error {
	// From here on the cluster is ours: nobody else may take it for crashed while it is being stopped.
	s.Owner, s.Detached = self(), false
	if err := s.save(dir); err != nil {
		return err
	}
	clean := false
	errs := []error{stopProcesses(s, map[string]func() error{"containerd": func() error {
		err := removePods(ctx, dir)
		clean = err == nil
		return err
	}})}
	if s.Machine != nil {
		errs = append(errs, restoreMachine(dir, s, clean))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the cluster in %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the cluster's folder: %w", err)
	}
	if s.Nodes == Real {
		return releaseMachine(dir)
	}
	return nil
}

// reclaimCrashed takes away what is left of every cluster whose owner is dead.
func (c *Cluster) reclaimCrashed() error {
	unlock, err := lockClusters()
	if err != nil {
		return err
	}
	defer unlock()
	return reclaim(c.progress)
}

// Clean takes away all that crashed processes left of their clusters: processes, containers, mounts, the bridge,
// packet filter rules, files. Running clusters are left alone. Up does the same before it starts.
//
// progress receives a line for each cluster; nil means none.
func Clean(w io.Writer) error {
	if w == nil {
		w = io.Discard
	}
	unlock, err := lockClusters()
	if err != nil {
		return err
	}
	defer unlock()
	return reclaim(&progress{w: w})
}

func reclaim(p *progress) error {
	dirs, err := clusters()
	if err != nil {
		return err
	}
	// A Real one may have been started by root with another cache directory.
	if dir, err := os.ReadFile(machineClaim()); err == nil && isFile(filepath.Join(string(dir), stateFile)) {
		dirs = append(dirs, string(dir))
	}
	slices.Sort(dirs)
	var errs []error
	for _, dir := range slices.Compact(dirs) {
		s, err := loadState(dir)
		if missing(err) {
			// A crash between making the folder and saving the state: nothing had been started.
			errs = append(errs, os.RemoveAll(dir))
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s.running() {
			continue
		}
		what := fmt.Sprintf("cleaning up after the cluster %s, whose owner (process %d) is gone", s.Name, s.Owner.PID)
		errs = append(errs, p.do(what, func() error { return stopCluster(context.Background(), dir, s) }))
	}
	return errors.Join(errs...)
}

// lockClusters makes starting and cleaning this user's clusters happen once at a time.
func lockClusters() (unlock func(), err error) {
	base, err := cacheDir("")
	if err != nil {
		return nil, err
	}
	return lock(filepath.Join(base, "clusters.lock"))
}

// restoreMachine undoes all that the cluster in dir did outside of its folder. Its processes must have ended. clean says
// that the pods were removed in order; otherwise the image store may be damaged, and goes too.
func restoreMachine(dir string, s *state, clean bool) error {
	errs := []error{
		killContainers(dir),
		unmountBelow(dir),
		unmountBelow(s.Machine.ImageStore),
		removeBridge(),
		removeRules(),
		removeControlGroups(podsGroup),
		removeLogLinks(dir),
		removeFixedPlaces(dir),
	}
	for name, value := range s.Machine.Sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			errs = append(errs, fmt.Errorf("setting %s back to %s: %w", name, value, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !clean {
		if err := os.RemoveAll(s.Machine.ImageStore); err != nil {
			return fmt.Errorf("removing the image store: %w", err)
		}
	}
	return nil
}

// containerLogs is where the kubelet links all containers' logs to. The place cannot be chosen.
const containerLogs = "/var/log/containers"

// removeLogLinks removes the kubelet's links to logs in dir.
func removeLogLinks(dir string) error {
	entries, err := os.ReadDir(containerLogs)
	if missing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the links to containers' logs: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		link := filepath.Join(containerLogs, entry.Name())
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(errs...)
}

// devicePlugins is where the kubelet listens for device plugins. The place cannot be chosen.
const devicePlugins = "/var/lib/kubelet/device-plugins"

// removeFixedPlaces removes our files where the programs of a node put them without a choice. Another's stay.
func removeFixedPlaces(dir string) error {
	if err := removeIfThere(filepath.Join(devicePlugins, "kubelet.sock")); err != nil {
		return fmt.Errorf("removing the kubelet's socket: %w", err)
	}
	for _, pod := range podFolders(dir) {
		results, err := filepath.Glob(filepath.Join("/var/lib/cni/results", "*-"+filepath.Base(pod)+"-*"))
		if err != nil {
			return fmt.Errorf("listing results of CNI: %w", err)
		}
		for _, result := range results {
			if err := removeIfThere(result); err != nil {
				return fmt.Errorf("removing a result of CNI: %w", err)
			}
		}
	}
	for _, dir := range []string{
		devicePlugins, filepath.Dir(devicePlugins),
		"/var/lib/cni/results", "/var/lib/cni",
		"/run/containerd/s", "/run/containerd",
		containerLogs,
	} {
		// It stays if it is not empty: then it is not ours alone. That it is not there is as well.
		_ = syscall.Rmdir(dir)
	}
	return nil
}
