package gang

import (
	"fmt"
	"strconv"
)

// Processes is the number of training processes in each pod.
type Processes struct {
	// Count is at least 1, or 0 if only the launcher in the pod can determine the number (see
	// Keyword).
	Count int64
	// Explicit is true if the user set a number. Only then the world size counts processes instead of
	// pods, as in PyTorchJob (training-operator, pkg/controller.v1/pytorch/envvar.go).
	Explicit bool
	// Keyword is "gpu", "cpu" or "auto" if the limits do not determine the number. The launcher
	// resolves the keyword in the pod.
	Keyword string
}

// String returns the value for a launcher: the number, else the keyword.
func (n Processes) String() string {
	if n.Count > 0 {
		return strconv.FormatInt(n.Count, 10)
	}
	return n.Keyword
}

// Keywords of [AnnotationNprocPerNode].
const (
	processesAuto = "auto"
	processesGPU  = "gpu"
	processesCPU  = "cpu"
)

// parseProcesses parses [AnnotationNprocPerNode] for the first training container. "auto" uses its
// number of accelerators, else its CPU limit as Trainer v2 does, else 1. Therefore a container with
// accelerators never gets only 1 process, and a container without a CPU limit never gets a process
// for every core of the node.
func (p *parser) parseProcesses(containers []Container) Processes {
	if len(containers) == 0 {
		return Processes{} // parseContainers has reported the error
	}
	first := containers[0]
	text, ok := p.meta.Annotations[AnnotationNprocPerNode]
	switch {
	case !ok || text == processesAuto:
		return autoProcesses(first)
	case text == processesGPU:
		return newProcesses(first.Accelerators, text)
	case text == processesCPU:
		return newProcesses(first.CPU, text)
	}
	count, ok := parseIntInRange(text, 1, MaxProcessesPerPod)
	if !ok {
		p.addInvalid(annotationsPath.Key(AnnotationNprocPerNode), text, fmt.Sprintf(
			"must be auto, gpu, cpu, or a whole number from 1 to %d", MaxProcessesPerPod))
		return Processes{}
	}
	return Processes{Count: count, Explicit: true}
}

func autoProcesses(c Container) Processes {
	switch {
	case c.Accelerators > 0:
		return Processes{Count: c.Accelerators}
	case c.HasResourceClaims:
		return Processes{Keyword: processesAuto}
	}
	return Processes{Count: max(1, c.CPU)}
}

func newProcesses(count int64, keyword string) Processes {
	if count > 0 {
		return Processes{Count: count}
	}
	return Processes{Keyword: keyword}
}
