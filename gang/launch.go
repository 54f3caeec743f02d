package gang

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MPI is an implementation of MPI, as far as launching differs between them.
type MPI string

// The implementations that a user can name.
const (
	OpenMPI  MPI = "openmpi"
	IntelMPI MPI = "intel"
	MPICH    MPI = "mpich"
)

// RoleLauncher is the role that starts the processes of all others, in each
// framework that launches.
const RoleLauncher = "launcher"

// Launch says how a launcher starts processes on the gang's hosts. The zero value
// belongs to frameworks without a launcher.
type Launch struct {
	// MPI is the implementation.
	MPI MPI
	// Slots is the number of processes for each host, at least 1.
	Slots int64
	// Self is true when the launcher's own pod is one of the hosts.
	Self bool
}

// launch reads the annotations about launching, and warns where they mean nothing.
func (p *parser) launch(g Gang) Launch {
	if !g.Framework.Launches {
		for _, key := range []string{AnnotationMPI, AnnotationSlots, AnnotationLauncherRuns} {
			if _, ok := p.meta.Annotations[key]; ok && g.Framework.Name != "" {
				p.warn(annotationsPath.Key(key), fmt.Sprintf("has no effect on a gang of %s, which has no launcher", g.Framework.Name))
			}
		}
		return Launch{}
	}
	l := Launch{MPI: p.mpi(), Slots: p.slots(g), Self: len(g.Members) == 1}
	if v, ok := p.meta.Annotations[AnnotationLauncherRuns]; ok {
		path := annotationsPath.Key(AnnotationLauncherRuns)
		switch {
		case v != "true" && v != "false":
			p.errs = append(p.errs, field.NotSupported(path, v, []string{"true", "false"}))
		case v == "false" && len(g.Members) == 1 && g.Role == RoleLauncher:
			p.invalid(path, v, "there are no other pods to run on; remove the annotation, or add workers with the annotation "+AnnotationRoles)
		default:
			l.Self = v == "true"
		}
	}
	return l
}

func (p *parser) mpi() MPI {
	v, ok := p.meta.Annotations[AnnotationMPI]
	if !ok {
		return OpenMPI
	}
	all := []string{string(OpenMPI), string(IntelMPI), string(MPICH)}
	for _, known := range all {
		if v == known {
			return MPI(v)
		}
	}
	p.unsupported(annotationsPath.Key(AnnotationMPI), v, all)
	return OpenMPI
}

// slots is the number of processes for each host. A launcher beside workers does not
// see their limits, so nothing is derived from its own.
func (p *parser) slots(g Gang) int64 {
	path := annotationsPath.Key(AnnotationSlots)
	if v, ok := p.meta.Annotations[AnnotationSlots]; ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 || n > maxPerPod {
			p.invalid(path, v, fmt.Sprintf("must be a whole number from 1 to %d: the processes on each host", maxPerPod))
			return 1
		}
		return n
	}
	switch {
	case g.Processes.Explicit || len(g.Members) == 1:
		return max(1, g.Processes.Count)
	case g.Role == RoleLauncher:
		p.warn(path, "not set, so the launcher starts 1 process on each host: it cannot see the limits of the workers; set it to the processes of one worker")
	}
	return 1
}
