package ssh

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/agent"
	"rollcall.training/plan"
)

// Port is the default port of the workers' sshd, and the port of mpi-operator's images. Port 22
// would need a capability that an unprivileged container does not have.
const Port = 2222

// PortName is the name of [Port] on the headless Service.
const PortName = "ssh"

// Names of the injected containers.
const (
	// SetupContainerName is the init container that writes the files of ssh. In a launcher, it also
	// waits for the hosts.
	SetupContainerName = "rollcall-ssh-setup"
	// MonitorContainerName is the sidecar that counts the hosts that the launcher reached. See
	// [ParseReachedHosts].
	MonitorContainerName = "rollcall-host-monitor"
)

// Keys in the Secret with the key pair of a gang. The type kubernetes.io/ssh-auth defines the
// first, mpi-operator the second.
const (
	PrivateKey = corev1.SSHAuthPrivateKey
	PublicKey  = "ssh-publickey"
)

// Volumes and their paths in the containers. Only the setup container mounts configMountPath and
// keyMountPath.
const (
	sshVolumeName    = "rollcall-ssh"
	configVolumeName = "rollcall-ssh-config"
	keyVolumeName    = "rollcall-ssh-key"
	sshMountPath     = "/etc/rollcall"
	configMountPath  = "/etc/rollcall-config"
	keyMountPath     = "/etc/rollcall-key"
)

// workerWaitTimeout limits how long the launcher waits for its hosts. The large clouds create nodes
// on demand within 15 minutes, and a node pulls an image of 20 GB within another 15 minutes.
const workerWaitTimeout = 30 * time.Minute

var (
	//go:embed setup.sh
	setupScript string
	//go:embed wait.sh
	waitScript string
	//go:embed monitor.sh
	monitorScript string
)

// Options are the settings that differ between frameworks.
type Options struct {
	// HydraHostfile selects the format of /etc/mpi/hostfile: "host:slots" of Hydra if it is true,
	// "host slots=n" of Open MPI otherwise.
	HydraHostfile bool
	// RunsSSH is true if the launcher runs a program with the name ssh, whatever its settings are.
	RunsSSH bool
	// HostfileMountPaths are additional directories in which the training containers find the
	// hostfile.
	HostfileMountPaths []string
}

// Plan returns the volumes, containers and children that let the launcher of g reach its hosts. A
// gang of one workload gets a hostfile, but neither keys nor sshd.
func Plan(g gang.Gang, o Options) plan.Plan {
	if g.Launcher.UsesAgent() {
		return planAgent(g, o)
	}
	p := plan.Plan{
		Volumes: []plan.Volume{{
			// The private key must never be written to a disk.
			Volume: newMemoryVolume(sshVolumeName),
			Mounts: newVolumeMounts(o),
			Policy: plan.Warn,
		}},
		InitContainers: []plan.InitContainer{newSetupContainer(g, o)},
		Programs:       requiredPrograms(g),
	}
	if isSingleWorkload(g) {
		return p
	}
	p.Children.KeyPairSecret = keyPairSecretName(g)
	p.Volumes = append(p.Volumes, newConfigVolume(), newKeyVolume(g))
	// The proxies of Hydra connect to the launcher by its bare hostname.
	p.DNSSearches = []string{g.ServiceFQDN()}
	if g.Role == gang.RoleLauncher {
		p.InitContainers = append(p.InitContainers, newMonitorContainer())
	} else {
		p.Command = []string{"/bin/sh", sshMountPath + "/ssh/sshd"}
	}
	return p
}

// isSingleWorkload reports whether a launcher without workers is the complete gang.
func isSingleWorkload(g gang.Gang) bool { return len(g.Members) == 1 }

// keyPairSecretName returns the name of the Secret with the key pair of a gang. The suffix prevents
// collisions with Secrets of the user.
func keyPairSecretName(g gang.Gang) string { return g.Name + "-rollcall-ssh" }

func newMemoryVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
	}}
}

// newConfigVolume returns the volume for the files that the training container must not change: a
// process that can write passwd can become another user.
func newConfigVolume() plan.Volume {
	return plan.Volume{
		Volume: newMemoryVolume(configVolumeName),
		Policy: plan.Warn,
		Mounts: []corev1.VolumeMount{
			{MountPath: "/etc/ssh/ssh_config", SubPath: "ssh_config", ReadOnly: true},
			{MountPath: "/etc/ssh/sshd_config", SubPath: "sshd_config", ReadOnly: true},
			{MountPath: "/etc/passwd", SubPath: "passwd", ReadOnly: true},
		},
	}
}

// newKeyVolume returns the volume with the key pair. It has no mounts in training containers, so
// that its mode can allow every user: the setup container runs as any user.
func newKeyVolume(g gang.Gang) plan.Volume {
	return plan.Volume{Volume: corev1.Volume{Name: keyVolumeName, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{
			SecretName:  keyPairSecretName(g),
			DefaultMode: ptr.To[int32](0o444),
		},
	}}}
}

// newVolumeMounts returns the mounts of the ssh volume in the training containers.
func newVolumeMounts(o Options) []corev1.VolumeMount {
	out := []corev1.VolumeMount{{MountPath: sshMountPath}}
	for _, dir := range append([]string{"/etc/mpi"}, o.HostfileMountPaths...) {
		out = append(out, corev1.VolumeMount{MountPath: dir, SubPath: "mpi"})
	}
	return out
}

// newSetupContainer returns the init container that runs setup.sh and, in the launcher of several
// workloads, wait.sh.
func newSetupContainer(g gang.Gang, o Options) plan.InitContainer {
	waits := g.Role == gang.RoleLauncher && !isSingleWorkload(g)
	script := hostfile.PrintHostsFunction + stripComments(setupScript)
	if waits {
		script += stripComments(waitScript)
	}
	mounts := []corev1.VolumeMount{{Name: sshVolumeName, MountPath: sshMountPath}}
	if !isSingleWorkload(g) {
		mounts = append(mounts,
			corev1.VolumeMount{Name: configVolumeName, MountPath: configMountPath},
			corev1.VolumeMount{Name: keyVolumeName, MountPath: keyMountPath, ReadOnly: true})
	}
	return plan.InitContainer{
		Name:    SetupContainerName,
		Command: []string{"/bin/sh", "-c", script},
		Env:     setupEnv(g, o, waits),
		Mounts:  mounts,
	}
}

// envHostPatterns is the variable with the patterns of hosts for the configuration of ssh.
const envHostPatterns = "ROLLCALL_HOST_PATTERNS"

// setupEnv returns the input of setup.sh, and of wait.sh if waits is true.
func setupEnv(g gang.Gang, o Options, waits bool) []plan.Env {
	format := "slots"
	if o.HydraHostfile {
		format = "hydra"
	}
	hosts := guaranteedHosts(g)
	env := []plan.Env{
		hostfile.NewHostsEnv(g, hosts),
		plan.LiteralEnv(agent.EnvDomain, g.ServiceFQDN()),
		plan.LiteralEnv(agent.EnvSlots, strconv.FormatInt(g.Launcher.SlotsPerWorker, 10)),
		plan.LiteralEnv(agent.EnvLauncherIsHost, strconv.FormatBool(g.Launcher.RunAsWorker)),
		plan.LiteralEnv(agent.EnvFormat, format),
		plan.LiteralEnv(agent.EnvPort, strconv.Itoa(int(g.SSHPort()))),
		plan.LiteralEnv(envHostPatterns, formatHostPatterns(g)),
	}
	if g.Elastic != nil {
		maxHosts := withElasticSize(g, hosts, g.Elastic.Max)
		env = append(env, plan.LiteralEnv(agent.EnvMaxHosts, hostfile.FormatMembers(maxHosts)))
	}
	if waits {
		env = append(env,
			plan.LiteralEnv(agent.EnvMinHosts, strconv.Itoa(int(minWorkerHosts(g)))),
			plan.LiteralEnv(agent.EnvWaitSeconds, strconv.Itoa(int(workerWaitTimeout.Seconds()))))
	}
	return env
}

// newMonitorContainer returns the sidecar that runs monitor.sh.
func newMonitorContainer() plan.InitContainer {
	return plan.InitContainer{
		Name:    MonitorContainerName,
		Sidecar: true,
		Command: []string{"/bin/sh", "-c", stripComments(monitorScript)},
		Mounts:  []corev1.VolumeMount{{Name: sshVolumeName, MountPath: sshMountPath}},
	}
}

// stripComments returns a script without blank lines and comment lines. Every pod template of the
// gang contains the script, and only readers of the source need the comments.
func stripComments(script string) string {
	var out strings.Builder
	for line := range strings.Lines(script) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "# ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// guaranteedHosts returns the hosts that the gang always has: those of the minimum size if the gang
// is elastic, all hosts otherwise. The current size of an elastic gang must not be part of a pod
// template, because every resize would then roll out a new template.
func guaranteedHosts(g gang.Gang) []gang.Member {
	if g.Elastic == nil {
		return g.HostMembers()
	}
	return withElasticSize(g, g.HostMembers(), g.Elastic.Min)
}

// withElasticSize returns a copy of members in which the member of the elastic role has the given
// size.
func withElasticSize(g gang.Gang, members []gang.Member, size int32) []gang.Member {
	out := slices.Clone(members)
	for i := range out {
		if out[i].Role == g.Framework.ElasticRole {
			out[i].Size = size
		}
	}
	return out
}

// minWorkerHosts returns the number of hosts that must respond before the launcher starts. The pod
// of the launcher does not count, because it runs no sshd.
func minWorkerHosts(g gang.Gang) int32 {
	var n int32
	for _, m := range guaranteedHosts(g) {
		if m.Role != gang.RoleLauncher {
			n += m.Size
		}
	}
	return n
}

// formatHostPatterns returns the patterns of ssh_config that match the bare hostnames of the gang.
func formatHostPatterns(g gang.Gang) string {
	patterns := make([]string, len(g.Members))
	for i, m := range g.Members {
		patterns[i] = m.WorkloadName + "-*"
	}
	return strings.Join(patterns, " ")
}
