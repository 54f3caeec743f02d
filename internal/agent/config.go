package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Paths in the containers of a pod.
const (
	// ProgramDir is the directory with the program. Training containers cannot write to it.
	ProgramDir = "/opt/rollcall"
	// Program is the path of the program.
	Program = ProgramDir + "/" + programName
	// ImageProgram is the path of the program in the image of the manager.
	ImageProgram = "/agent"
	// KeyDir is the directory with the Secret of the gang.
	KeyDir = "/etc/rollcall-key"
	// HostsDir is the directory with the lists of hosts and the configuration. Programs of v1 MPIJobs know its path.
	HostsDir = "/etc/mpi"
	// RemoteShell is the path of the program under the name that Horovod knows
	// (horovod, runner/common/util/env.py, KUBEFLOW_MPI_EXEC).
	RemoteShell = HostsDir + "/" + remoteShellName
	// ReportDir is the directory in which the launcher records the hosts that it reached.
	ReportDir = "/etc/rollcall"
	// SetupDir is where the container of the setup mounts the volume with ProgramDir, HostsDir and ReportDir.
	SetupDir = "/rollcall"
)

// Subdirectories of [SetupDir].
const (
	ProgramSubdir = "bin"
	HostsSubdir   = "mpi"
	ReportSubdir  = "report"
)

// Names of files.
const (
	programName     = "agent"
	remoteShellName = "kubexec.sh"
	configName      = "agent.json"
	reachedName     = "reached"
	candidatesName  = "candidates"
)

// Variables of the injected containers. EnvRank and EnvAttempt belong to the training container.
const (
	EnvHosts          = "ROLLCALL_HOSTS"
	EnvMaxHosts       = "ROLLCALL_MAX_HOSTS"
	EnvDomain         = "ROLLCALL_DOMAIN"
	EnvSlots          = "ROLLCALL_SLOTS_PER_WORKER"
	EnvLauncherIsHost = "ROLLCALL_LAUNCHER_IS_HOST"
	EnvFormat         = "ROLLCALL_HOSTFILE_FORMAT"
	EnvPort           = "ROLLCALL_PORT"
	EnvMinHosts       = "ROLLCALL_MIN_HOSTS"
	EnvWaitSeconds    = "ROLLCALL_WAIT_SECONDS"
	EnvWorkload       = "ROLLCALL_WORKLOAD"
	EnvRankOffset     = "ROLLCALL_RANK_OFFSET"
	// EnvIsMounted is "true" if the image with the program is a volume at [ProgramDir], so that the setup copies nothing.
	EnvIsMounted = "ROLLCALL_IS_MOUNTED"

	envRank    = "ROLLCALL_RANK"
	envAttempt = "ROLLCALL_ATTEMPT"
	// envRoot is a directory that replaces the root directory in tests.
	envRoot = "ROLLCALL_AGENT_ROOT"
)

// config is what the setup writes for the other parts of the program in the same pod.
type config struct {
	Port       int    `json:"port"`
	Workload   string `json:"workload"`
	RankOffset int    `json:"rankOffset"`
	Slots      string `json:"slots"`
	// LauncherIsHost is true if the launcher's own pod is the first host.
	LauncherIsHost bool `json:"launcherIsHost,omitempty"`
}

// resolvePath returns a path below the root directory.
func resolvePath(path ...string) string {
	return filepath.Join(append([]string{os.Getenv(envRoot), "/"}, path...)...)
}

func (c config) save(path string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	return writeFile(path, text, 0o644)
}

func loadConfig() (config, error) {
	var c config
	text, err := os.ReadFile(resolvePath(HostsDir, configName))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return config{}, fmt.Errorf("reading the configuration of the agent: %w", err)
	}
	return c, nil
}

// hostName returns the name of this pod, which is also its hostname unless the pod uses the network of the node.
func (c config) hostName() (string, error) {
	rank, err := strconv.Atoi(os.Getenv(envRank))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", envRank, err)
	}
	return c.Workload + "-" + strconv.Itoa(rank-c.RankOffset), nil
}

// firstLabel returns the part of a host before the first dot.
func firstLabel(host string) string {
	label, _, _ := strings.Cut(host, ".")
	return label
}

// writeFile writes a file with exactly the mode, whatever the umask is.
func writeFile(path string, content []byte, mode os.FileMode) error {
	// An existing file can belong to another user, or be an executable in use.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
