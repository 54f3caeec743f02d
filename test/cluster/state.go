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

// stateFile is the file in a cluster's folder which says what runs, so that any process can use and stop it.
const stateFile = "state.json"

// state is all that must be known to use, stop, or clean away a cluster, from any process and at any time.
type state struct {
	Name     string    `json:"name"`
	Nodes    Nodes     `json:"nodes"`
	Release  Release   `json:"release"`
	Created  time.Time `json:"created"`
	Server   string    `json:"server"`
	Detached bool      `json:"detached"`
	// Owner is the process that started the cluster. Without Detached the cluster ends with it.
	Owner processID `json:"owner"`
	// Processes are in the order of their start.
	Processes []record `json:"processes"`
	// Machine is what a Real cluster changes outside of its folder. It is set before the change.
	Machine *machineState `json:"machine,omitempty"`
}

// machineState is what a Real cluster changes on the machine, as it was before.
type machineState struct {
	// ImageStore is where containerd keeps its images. It outlives the cluster, unless that crashes.
	ImageStore string `json:"imageStore"`
	// Sysctls are kernel settings by their path below /proc/sys, with their former value.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// record is one process of a cluster.
type record struct {
	processID
	Name string `json:"name"`
	Log  string `json:"log"`
}

// cacheDir returns the directory of everything that we keep between runs, made if need be.
func cacheDir(sub string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	dir := filepath.Join(base, "rollcall", sub)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache directory: %w", err)
	}
	return dir, nil
}

// newName returns a name that no other cluster has.
func newName(nodes Nodes) string {
	return fmt.Sprintf("%s-%d-%s", nodes, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

func (s *state) save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's state: %w", err)
	}
	// Renamed into place: a reader, or a crash, must never meet half a file.
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}

func loadState(dir string) (*state, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's state: %w", err)
	}
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("reading the cluster's state in %s: %w", dir, err)
	}
	return s, nil
}

// running tells whether the cluster is in use: its owner lives, or it is detached and a process of it lives.
func (s *state) running() bool {
	if s.Owner.alive() {
		return true
	}
	return s.Detached && len(s.living()) > 0
}

// living returns the processes which still run.
func (s *state) living() []record {
	var living []record
	for _, process := range s.Processes {
		if process.alive() {
			living = append(living, process)
		}
	}
	return living
}

// clusters returns the folders of all clusters of this user, running or left behind.
func clusters() ([]string, error) {
	base, err := cacheDir("clusters")
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

// lock makes what it guards happen once at a time on this machine. It ends by unlock or with the process.
func lock(path string) (unlock func(), err error) {
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
		return nil, errors.Join(fmt.Errorf("taking the lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// keepNewest removes all but the files and folders which were changed last, of those that the pattern matches.
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

// missing tells that an error means "there is no such file".
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
