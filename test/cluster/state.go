package cluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stateFileName is the file in the directory of a cluster that records its processes, so that any
// process can use and stop the cluster.
const stateFileName = "state.json"

// clusterState is the information that any process needs to use, stop or clean up a cluster.
type clusterState struct {
	Name     string    `json:"name"`
	Nodes    NodeKind  `json:"nodes"`
	Release  Release   `json:"release"`
	Created  time.Time `json:"created"`
	Server   string    `json:"server"`
	Detached bool      `json:"detached"`
	// Owner is the process that started the cluster. The cluster ends with it unless Detached is
	// set.
	Owner processID `json:"owner"`
	// Processes are in the order of their start.
	Processes []processRecord `json:"processes"`
	// Machine records the changes of a Real cluster outside of its directory. It is saved before
	// the changes.
	Machine *machineState `json:"machine,omitempty"`
	// NetworkPolicyAgent is the program that enforces NetworkPolicies on each real node; empty for none.
	NetworkPolicyAgent string `json:"networkPolicyAgent,omitempty"`
}

// machineState records the machine's original settings that a Real cluster changes.
type machineState struct {
	// ImageStore is the directory of containerd's images. It outlives the cluster unless the
	// cluster crashes.
	ImageStore string `json:"imageStore"`
	// Sysctls are the original values of changed kernel settings by their path below /proc/sys.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// processRecord is one process of a cluster.
type processRecord struct {
	processID
	program
	Log string `json:"log"`
	// isDown is true if a fault of its node has ended the process.
	isDown bool
}

// recordProcess adds a process. The process replaces an exited process of the same name, because the
// order of the processes determines the order of the shutdown.
func (s *clusterState) recordProcess(started processRecord) {
	for i, process := range s.Processes {
		if process.Name == started.Name && !process.isAlive() {
			s.Processes[i] = started
			return
		}
	}
	s.Processes = append(s.Processes, started)
}

// ensureCacheDir creates and returns a subdirectory of the cache directory.
func ensureCacheDir(sub string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	dir := filepath.Join(base, "rollcall", sub)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache directory: %w", err)
	}
	return dir, nil
}

// generateName returns a random name of a cluster.
func generateName(nodes NodeKind) string {
	return fmt.Sprintf("%s-%d-%s", nodes, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

func (s *clusterState) saveTo(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's state: %w", err)
	}
	// Rename the file into place, so that a reader or a crash never leaves a partial file.
	path := filepath.Join(dir, stateFileName)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}

func loadState(dir string) (*clusterState, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFileName))
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's state: %w", err)
	}
	s := &clusterState{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("reading the cluster's state in %s: %w", dir, err)
	}
	return s, nil
}

// isInUse reports whether the cluster is in use: its owner is alive, or it is detached and one of
// its processes is alive.
func (s *clusterState) isInUse() bool {
	if s.Owner.isAlive() {
		return true
	}
	return s.Detached && len(s.runningProcesses()) > 0
}

// runningProcesses returns the processes that are alive.
func (s *clusterState) runningProcesses() []processRecord {
	var living []processRecord
	for _, process := range s.Processes {
		if process.isAlive() {
			living = append(living, process)
		}
	}
	return living
}

// findProcess returns the process of a component, and whether it is alive.
func (s *clusterState) findProcess(name string) (process processRecord, alive bool) {
	for _, p := range s.Processes {
		if p.Name == name {
			process = p
		}
	}
	return process, process.isAlive()
}

// listClusterDirs returns the directories of all clusters of this user, including crashed ones.
func listClusterDirs() ([]string, error) {
	base, err := ensureCacheDir("clusters")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() {
			dirs = append(dirs, filepath.Join(base, entry.Name()))
		}
	}
	return dirs, nil
}

// acquireLock acquires an exclusive lock for all processes of this machine. unlock or the end of
// the process releases it.
func acquireLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("acquiring the lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// keepNewest removes all files and directories that match the pattern, except the most recently
// changed ones.
func keepNewest(pattern string, keep int) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("listing old files: %w", err)
	}
	changed := map[string]time.Time{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			changed[path] = info.ModTime()
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return changed[b].Compare(changed[a]) })
	var errs []error
	for _, path := range paths[min(keep, len(paths)):] {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// isNotExist reports whether an error means that a file does not exist.
func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
