package vet

import (
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

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
