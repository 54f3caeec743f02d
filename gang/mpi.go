package gang

import (
	"fmt"
)

// MPIImplementation is an implementation of MPI. Implementations differ in the format of the
// hostfile.
type MPIImplementation string

// The supported implementations.
const (
	OpenMPI  MPIImplementation = "openmpi"
	IntelMPI MPIImplementation = "intel"
	MPICH    MPIImplementation = "mpich"
)

// RoleLauncher is the role of the launcher in every framework with HasLauncher.
const RoleLauncher = "launcher"

// Launcher describes how a launcher starts processes on the hosts of the gang. The zero value is for
// frameworks without a launcher.
type Launcher struct {
	// MPI is the MPI implementation of the image.
	MPI MPIImplementation
	// SlotsPerWorker is the number of processes of each host, at least 1.
	SlotsPerWorker int64
	// RunAsWorker is true if the launcher's own pod is one of the hosts.
	RunAsWorker bool
	// Launch is how the launcher starts processes in other pods.
	Launch LaunchMethod
	// AgentImage is the image that contains the agent.
	AgentImage AgentImage
}

// parseLauncher parses the annotations of launchers. It warns about them if the framework has no
// launcher.
func (p *parser) parseLauncher(g Gang, cfg Config) Launcher {
	if !g.Framework.HasLauncher {
		for _, key := range []string{
			AnnotationMPIImplementation, AnnotationSlotsPerWorker, AnnotationRunLauncherAsWorker, AnnotationLaunch,
		} {
			if _, ok := p.meta.Annotations[key]; ok && g.Framework.Name != "" {
				p.addWarning(annotationsPath.Key(key), fmt.Sprintf(
					"has no effect on a gang of %s, which has no launcher", g.Framework.Name))
			}
		}
		return Launcher{}
	}
	mpi := p.parseEnum(AnnotationMPIImplementation, string(OpenMPI), string(IntelMPI), string(MPICH))
	return Launcher{
		MPI:            MPIImplementation(mpi),
		SlotsPerWorker: p.parseSlotsPerWorker(g),
		RunAsWorker:    p.parseRunLauncherAsWorker(g),
		Launch:         LaunchMethod(p.parseEnum(AnnotationLaunch, string(LaunchSSH), string(LaunchAgent))),
		AgentImage:     cfg.agentImage(),
	}
}

func (p *parser) parseRunLauncherAsWorker(g Gang) bool {
	isSingleWorkload := len(g.Members) == 1
	text, ok := p.meta.Annotations[AnnotationRunLauncherAsWorker]
	if !ok {
		return isSingleWorkload
	}
	path := annotationsPath.Key(AnnotationRunLauncherAsWorker)
	runAsWorker, ok := p.parseBool(path, text)
	if ok && !runAsWorker && isSingleWorkload && g.Role == RoleLauncher {
		p.addInvalid(path, text,
			"the gang has no other pods; remove the annotation, or add workers with the annotation "+AnnotationRoles)
	}
	return runAsWorker
}

// parseSlotsPerWorker returns the number of processes of each host. In a gang with workers it does
// not follow from the launcher's own limits, because the limits of the workers are in another
// workload.
func (p *parser) parseSlotsPerWorker(g Gang) int64 {
	_, ok := p.meta.Annotations[AnnotationSlotsPerWorker]
	switch {
	case ok:
		return p.parseInt(AnnotationSlotsPerWorker, 1, MaxProcessesPerPod, 1, ": the processes on each host")
	case g.Processes.Explicit || len(g.Members) == 1:
		return max(1, g.Processes.Count)
	case g.Role == RoleLauncher:
		p.addWarning(annotationsPath.Key(AnnotationSlotsPerWorker),
			"is not set, so the launcher starts 1 process on each host; set it to the number of processes of one worker")
	}
	return 1
}
