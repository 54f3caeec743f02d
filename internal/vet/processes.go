package vet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

func checkTorchLaunchDeprecated(r *reporter, w *labeledWorkload) {
	for _, c := range w.trainingContainers() {
		for _, l := range w.launchers.FindAll(c.parseCommand()) {
			if l.Deprecated() {
				r.add(c.commandPath(), "use torchrun, and read the variable LOCAL_RANK in the program",
					"torch.distributed.launch is deprecated, and PyTorch may remove it")
			}
		}
	}
}

// auxiliaryPrograms are programs that scripts run before or after the training program.
var auxiliaryPrograms = []string{
	"cd", "set", "export", "echo", "printf", "mkdir", "cp", "ln", "pip", "pip3", "source", ".", "ls", "env", "date",
	"nvidia-smi", "hostname", "ulimit", "unset", "trap", "true", "sleep", "cat", "chmod", "test", "[", "tee", "wait",
	"command", "which",
}

// findSinglePythonScript returns the name of the Python script if the command runs exactly one and
// nothing else that could start more processes.
func (w *labeledWorkload) findSinglePythonScript(c command.Command) (string, bool) {
	if c.MayRepeat {
		return "", false
	}
	found := ""
	for _, p := range c.Programs {
		if slices.Contains(auxiliaryPrograms, p.Name) {
			continue
		}
		python, ok := p.Python()
		if _, isLaunch := w.launchers.Find(p); !ok || isLaunch || !strings.HasSuffix(python.Script, ".py") || found != "" {
			return "", false
		}
		found = python.Script
	}
	return found, found != ""
}

func checkSingleProcessCommand(r *reporter, w *labeledWorkload) {
	containers, processes := w.trainingContainers(), w.gang.Processes
	if !w.gang.UsesTorchrunVars() || w.gang.Elastic != nil || len(containers) == 0 || processes.Count < 2 {
		return
	}
	c := containers[0]
	script, ok := w.findSinglePythonScript(c.parseCommand())
	switch {
	case !ok:
		return
	case processes.Explicit:
		r.add(c.commandPath(), "start it with torchrun, unless it starts the other processes itself",
			"python %s is one process, but %s sets %d in each pod", script, gang.AnnotationNprocPerNode, processes.Count)
	case c.parsed.Accelerators > 1:
		r.add(c.commandPath(),
			"start it with torchrun, unless it uses all accelerators or starts the other processes itself",
			"python %s is one process, but the pod has %d accelerators", script, c.parsed.Accelerators)
	}
}

func checkWorldSizeCountsPods(r *reporter, w *labeledWorkload) {
	if !w.gang.UsesTorchrunVars() || w.gang.Processes.Explicit || w.gang.Size < 2 {
		return
	}
	for _, c := range w.trainingContainers() {
		for _, l := range w.launchers.FindAll(c.parseCommand()) {
			flags, complete := l.Flags()
			_, setsWorldSize := flags["world-size"]
			if l.Name != composer || !complete || setsWorldSize {
				continue
			}
			processes := c.parsed.Accelerators // composer starts one process for each GPU by default
			for _, name := range []string{"n", "nproc"} {
				if value, ok := flags[name]; ok {
					processes, _ = strconv.ParseInt(value.Text, 10, 32)
				}
			}
			if processes > 1 {
				r.add(c.commandPath(), fmt.Sprintf("set %s: %q", gang.AnnotationNprocPerNode, strconv.FormatInt(processes, 10)),
					"composer starts %d processes in each pod, but WORLD_SIZE is the number of pods (%d)", processes, w.gang.Size)
			}
		}
	}
}

func checkElasticWithoutTorchrun(r *reporter, w *labeledWorkload) {
	if !w.gang.UsesTorchrunVars() || w.gang.Elastic == nil {
		return
	}
	for _, c := range w.trainingContainers() {
		if script, ok := w.findSinglePythonScript(c.parseCommand()); ok {
			r.add(c.commandPath(), "start it with torchrun, or remove "+gang.AnnotationElastic,
				"python %s gets neither RANK nor WORLD_SIZE, because torchrun sets them in an elastic gang", script)
		}
	}
}
