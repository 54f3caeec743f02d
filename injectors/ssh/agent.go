package ssh

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/agent"
	"rollcall.training/plan"
)

// AgentSetupContainerName is the init container that writes the hostfiles, and copies the agent into the pod unless the
// pod mounts its image. In a launcher, it also waits for the hosts.
const AgentSetupContainerName = "rollcall-agent-setup"

const (
	agentVolumeName   = "rollcall-agent"
	programVolumeName = "rollcall-agent-image"
	// sshProgramPath is where programs find ssh that do not read the variables of [hostfile.AgentEnv].
	sshProgramPath = "/usr/bin/ssh"
	agentSubPath   = agent.ProgramSubdir + "/agent"
)

// planAgent returns what [Plan] returns for a gang whose processes the agent starts. The image of the containers that
// it injects is that of the manager, so that the image of the user needs only a shell.
func planAgent(g gang.Gang, o Options) plan.Plan {
	p := plan.Plan{
		Volumes: []plan.Volume{{
			Volume: corev1.Volume{Name: agentVolumeName, VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{},
			}},
			Mounts: newAgentMounts(g, o),
			Policy: plan.Warn,
		}},
		InitContainers: []plan.InitContainer{newAgentSetupContainer(g, o)},
	}
	if mountsProgram(g, o) {
		p.Volumes = append(p.Volumes, NewProgramVolume(g.Launcher.AgentImage))
	}
	if isSingleWorkload(g) {
		return p
	}
	p.Env = hostfile.AgentEnv()
	p.Children.KeyPairSecret = keyPairSecretName(g)
	key := newKeyVolume(g)
	// The agent of the training container runs as any user, and reads the key from the Secret.
	key.Mounts = []corev1.VolumeMount{{MountPath: agent.KeyDir, ReadOnly: true}}
	p.Volumes = append(p.Volumes, key)
	p.DNSSearches = []string{g.ServiceFQDN()}
	if g.Role == gang.RoleLauncher {
		p.InitContainers = append(p.InitContainers, plan.InitContainer{
			Name: MonitorContainerName, Image: g.Launcher.AgentImage.Reference, Sidecar: true,
			Command: []string{agent.ImageProgram, "monitor"},
			Mounts: []corev1.VolumeMount{
				{Name: agentVolumeName, MountPath: agent.ReportDir, SubPath: agent.ReportSubdir, ReadOnly: true},
			},
		})
		return p
	}
	p.Command = []string{agent.Program, "serve"}
	p.Programs = []plan.Program{{
		Name: "sh", Package: shellPackage, Absence: "the agent cannot start the processes of the launcher",
	}}
	return p
}

// mountsProgram reports whether the program comes from an image volume. The runtime mounts only directories of
// an image (containerd 2.2), and a launcher that runs ssh needs a file.
func mountsProgram(g gang.Gang, o Options) bool {
	return g.Launcher.AgentImage.IsMounted && (!o.RunsSSH || g.Role != gang.RoleLauncher)
}

// NewProgramVolume returns the volume with the image of the agent, which training containers mount.
func NewProgramVolume(image gang.AgentImage) plan.Volume {
	return plan.Volume{
		Volume: corev1.Volume{Name: programVolumeName, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: image.Reference, PullPolicy: corev1.PullIfNotPresent},
		}},
		Mounts: []corev1.VolumeMount{{MountPath: agent.ProgramDir, ReadOnly: true}},
		Policy: plan.Warn,
	}
}

// newAgentMounts returns the mounts of the agent's volume in the training containers. They can write only the report
// of the launcher.
func newAgentMounts(g gang.Gang, o Options) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	if !mountsProgram(g, o) {
		mounts = append(mounts, corev1.VolumeMount{
			MountPath: agent.ProgramDir, SubPath: agent.ProgramSubdir, ReadOnly: true,
		})
	}
	for _, dir := range append([]string{agent.HostsDir}, o.HostfileMountPaths...) {
		mounts = append(mounts, corev1.VolumeMount{MountPath: dir, SubPath: agent.HostsSubdir, ReadOnly: true})
	}
	if g.Role == gang.RoleLauncher {
		mounts = append(mounts, corev1.VolumeMount{MountPath: agent.ReportDir, SubPath: agent.ReportSubdir})
		if o.RunsSSH {
			mounts = append(mounts, corev1.VolumeMount{MountPath: sshProgramPath, SubPath: agentSubPath, ReadOnly: true})
		}
	}
	return mounts
}

// newAgentSetupContainer returns the init container with the setup of the agent.
func newAgentSetupContainer(g gang.Gang, o Options) plan.InitContainer {
	waits := g.Role == gang.RoleLauncher && !isSingleWorkload(g)
	mounts := []corev1.VolumeMount{{Name: agentVolumeName, MountPath: agent.SetupDir}}
	if waits {
		mounts = append(mounts, corev1.VolumeMount{Name: keyVolumeName, MountPath: agent.KeyDir, ReadOnly: true})
	}
	env := slices.DeleteFunc(setupEnv(g, o, waits), func(e plan.Env) bool { return e.Name == envHostPatterns })
	env = append(env,
		plan.LiteralEnv(agent.EnvWorkload, g.WorkloadName),
		plan.LiteralEnv(agent.EnvRankOffset, strconv.Itoa(int(g.RankOffset))))
	if mountsProgram(g, o) {
		env = append(env, plan.LiteralEnv(agent.EnvIsMounted, "true"))
	}
	return plan.InitContainer{
		Name: AgentSetupContainerName, Image: g.Launcher.AgentImage.Reference,
		Command: []string{agent.ImageProgram, "setup"}, Env: env, Mounts: mounts,
	}
}
