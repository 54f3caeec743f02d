package gang

import (
	"fmt"
	"strconv"
)

// Processes is the number of training processes in each pod.
type Processes struct {
	// Count is at least 1, or 0 when only the launcher inside the pod can tell
	// (see Word).
	Count int64
	// Explicit is true when the user wrote a number. Only then does the world
	// size count processes instead of pods, as PyTorchJob does
	// (training-operator, pkg/controller.v1/pytorch/envvar.go).
	Explicit bool
	// Word is "gpu", "cpu" or "auto" where the limits give no number; the launcher
	// resolves it inside the pod.
	Word string
}

// String is the value for a launcher: the number, else the word.
func (n Processes) String() string {
	if n.Count > 0 {
		return strconv.FormatInt(n.Count, 10)
	}
	return n.Word
}

// processes reads nproc-per-node. "auto" follows the first training container:
// its accelerators, else its CPU limit as Trainer v2 does, else 1. A container
// with accelerators thus never gets a silent 1, and one without a CPU limit never
// starts a process for every core of its host.
func (p *parser) processes(cs []Container) Processes {
	if len(cs) == 0 {
		return Processes{} // said already
	}
	c := cs[0]
	v, ok := p.meta.Annotations[AnnotationNproc]
	if !ok {
		v = "auto"
	}
	switch v {
	case "auto":
		switch {
		case c.Accelerators > 0:
			return Processes{Count: c.Accelerators}
		case c.Claims:
			return Processes{Word: v}
		}
		return Processes{Count: max(1, c.CPU)}
	case "gpu":
		return countOr(c.Accelerators, v)
	case "cpu":
		return countOr(c.CPU, v)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > maxPerPod {
		p.invalid(annotationsPath.Key(AnnotationNproc), v,
			fmt.Sprintf("must be auto, gpu, cpu, or a whole number from 1 to %d", maxPerPod))
		return Processes{}
	}
	return Processes{Count: n, Explicit: true}
}

func countOr(n int64, word string) Processes {
	if n > 0 {
		return Processes{Count: n}
	}
	return Processes{Word: word}
}
