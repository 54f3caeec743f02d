package injectors

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/agent"
	"rollcall.training/plan"
)

const (
	// progressSetupName is the init container that copies the program of the probe into the pod.
	progressSetupName = "rollcall-progress-setup"
	// progressVolumeName is the volume with the program.
	progressVolumeName = "rollcall-progress"
	// progressGracePeriod is the grace period of a stalled rank. Its program does not handle SIGTERM any more, and Python
	// as process 1 survives its own SIGABRT.
	progressGracePeriod = 5 // seconds
	// progressProbeTimeout is how long the program of the probe may run, without its wait for other ranks. A probe that
	// exceeds it has failed, so it is long enough for a node with too little CPU.
	progressProbeTimeout = 30 * time.Second
)

// envFaultHandler makes Python print the stacks of all threads when it receives SIGABRT
// (docs.python.org/3/library/faulthandler.html).
const envFaultHandler = "PYTHONFAULTHANDLER"

// addProgressProbe adds the probe that finds ranks without progress to a plan. The kubelet runs the probe, so that it
// needs no requests, no permission and no manager. The program comes from the image of the manager, because images
// without a shell have none (docs/adr/0007-first-failure.md).
func addProgressProbe(p *plan.Plan, g gang.Gang) {
	rules := g.StallRules
	if rules.File == "" {
		return
	}
	p.Env = append(p.Env, plan.Env{
		EnvVar: corev1.EnvVar{Name: envFaultHandler, Value: "1"}, Policy: plan.KeepUser,
	})
	if rules.Action == gang.StallRestart {
		p.LivenessProbe = newProgressProbe(rules, rules.ProbePeriod()+progressProbeTimeout)
		p.LivenessProbe.TerminationGracePeriodSeconds = ptr.To[int64](progressGracePeriod)
		// A probe of a container that ends is killed, which the kubelet counts as a failure. It would restart a rank that
		// has succeeded. The second failed probe aborts the program (internal/agent/progress.go).
		p.LivenessProbe.FailureThreshold = 2
	} else {
		p.ReadinessProbe = newProgressProbe(rules, progressProbeTimeout)
	}
	if g.Launcher.UsesAgent() { // which has the program at the same path
		return
	}
	if rules.AgentImage.IsMounted {
		p.Volumes = append(p.Volumes, ssh.NewProgramVolume(rules.AgentImage))
		return
	}
	p.Volumes = append(p.Volumes, plan.Volume{
		Volume: corev1.Volume{Name: progressVolumeName, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{},
		}},
		Mounts: []corev1.VolumeMount{{MountPath: agent.ProgramDir, SubPath: agent.ProgramSubdir, ReadOnly: true}},
		Policy: plan.Warn,
	})
	p.InitContainers = append(p.InitContainers, plan.InitContainer{
		Name: progressSetupName, Image: rules.AgentImage.Reference, Command: []string{agent.ImageProgram, "install"},
		Mounts: []corev1.VolumeMount{{Name: progressVolumeName, MountPath: agent.SetupDir}},
	})
}

func newProgressProbe(rules gang.StallRules, timeout time.Duration) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: rules.ProbeCommand()}},
		TimeoutSeconds: int32(timeout / time.Second),
		PeriodSeconds:  int32(rules.ProbePeriod() / time.Second),
		// The defaults of the API server, except that one failure is sufficient.
		SuccessThreshold: 1, FailureThreshold: 1,
	}
}
