package vet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

func processChecks() []Check {
	return []Check{
		{
			Code: CodeTorchLaunchDeprecated, Severity: Info, checkGang: checkTorchLaunchDeprecated,
			Title: "torch.distributed.launch is deprecated",
			Why: "PyTorch 1.10 replaced it with torchrun, and a later release may remove it. " +
				"By default, it passes the local rank as an argument whose spelling changed in PyTorch 2.0.",
			Fix: "Use `torchrun`, and read the variable `LOCAL_RANK` in the program.",
		},
		{
			Code: CodeSingleProcessCommand, Severity: Info, checkGang: checkSingleProcessCommand,
			Title: "The command starts one process, but each pod needs several",
			Why: "A Python interpreter is one process, which trains on one accelerator while the others are idle. " +
				"With `" + gang.AnnotationNprocPerNode + "`, the world size exceeds the number of processes, " +
				"so the processes wait for the missing ranks. " +
				"Programs that start the other processes themselves, such as programs with Lightning, are not affected.",
			Fix: "Start the program with `torchrun`, which starts one process for each accelerator.",
		},
		{
			Code: CodeWorldSizeCountsPods, Severity: Warning, checkGang: checkWorldSizeCountsPods,
			Title: "WORLD_SIZE counts pods, but composer starts several processes in each pod",
			Why: "composer reads the number of all processes from `WORLD_SIZE` (composer/cli/launcher.py). " +
				"Without `" + gang.AnnotationNprocPerNode + "`, the variable is the number of pods. " +
				"composer then exits, or each pod trains separately if both numbers are equal.",
			Fix: "Set `" + gang.AnnotationNprocPerNode + "` to the number of processes in each pod.",
		},
		{
			Code: CodeElasticWithoutTorchrun, Severity: Warning, checkGang: checkElasticWithoutTorchrun,
			Title: "The gang is elastic, but its command does not use torchrun",
			Why: "torchrun assigns the ranks of an elastic gang at each rendezvous, " +
				"so Rollcall does not inject `RANK` and `WORLD_SIZE`. A program without torchrun gets neither variable.",
			Fix: "Start the program with `torchrun`, or remove `" + gang.AnnotationElastic + "`.",
		},
	}
}

func checkTorchLaunchDeprecated(_ *input, w *labeledWorkload) []issue {
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, l := range c.parseCommand().Launches() {
			if l.Deprecated() {
				issues = append(issues, issue{
					field:   c.commandPath(),
					message: "torch.distributed.launch is deprecated, and PyTorch may remove it",
					fix:     "use torchrun, and read the variable LOCAL_RANK in the program",
				})
			}
		}
	}
	return issues
}

// auxiliaryPrograms are programs that scripts run before or after the training program.
var auxiliaryPrograms = []string{
	"cd", "set", "export", "echo", "printf", "mkdir", "cp", "ln", "pip", "pip3", "source", ".", "ls", "env", "date",
	"nvidia-smi", "hostname", "ulimit", "unset", "trap", "true", "sleep", "cat", "chmod", "test", "[", "tee", "wait",
	"command", "which",
}

// findSinglePythonScript returns the name of the Python script if the command runs exactly one and
// nothing else that could start more processes.
func findSinglePythonScript(c command.Command) (string, bool) {
	if c.MayRepeat {
		return "", false
	}
	found := ""
	for _, p := range c.Programs {
		if slices.Contains(auxiliaryPrograms, p.Name) {
			continue
		}
		python, ok := p.Python()
		if _, isLaunch := p.Launch(); !ok || isLaunch || !strings.HasSuffix(python.Script, ".py") || found != "" {
			return "", false
		}
		found = python.Script
	}
	return found, found != ""
}

func checkSingleProcessCommand(_ *input, w *labeledWorkload) []issue {
	containers, processes := w.trainingContainers(), w.gang.Processes
	if !w.usesTorchrunVars() || w.gang.Elastic != nil || len(containers) == 0 || processes.Count < 2 {
		return nil
	}
	c := containers[0]
	script, ok := findSinglePythonScript(c.parseCommand())
	switch {
	case !ok:
		return nil
	case processes.Explicit:
		return []issue{{
			field: c.commandPath(),
			message: fmt.Sprintf("python %s is one process, but %s sets %d in each pod",
				script, gang.AnnotationNprocPerNode, processes.Count),
			fix: "start it with torchrun, unless it starts the other processes itself",
		}}
	case c.parsed.Accelerators > 1:
		return []issue{{
			field:   c.commandPath(),
			message: fmt.Sprintf("python %s is one process, but the pod has %d accelerators", script, c.parsed.Accelerators),
			fix:     "start it with torchrun, unless it uses all accelerators or starts the other processes itself",
		}}
	}
	return nil
}

func checkWorldSizeCountsPods(_ *input, w *labeledWorkload) []issue {
	if !w.usesTorchrunVars() || w.gang.Processes.Explicit || w.gang.Size < 2 {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, l := range c.parseCommand().Launches() {
			flags, complete := l.Flags()
			_, setsWorldSize := flags["world-size"]
			if l.Launcher != command.Composer || !complete || setsWorldSize {
				continue
			}
			processes := c.parsed.Accelerators // composer starts one process for each GPU by default
			for _, name := range []string{"n", "nproc"} {
				if value, ok := flags[name]; ok {
					processes, _ = strconv.ParseInt(value.Text, 10, 32)
				}
			}
			if processes > 1 {
				issues = append(issues, issue{
					field: c.commandPath(),
					message: fmt.Sprintf("composer starts %d processes in each pod, but WORLD_SIZE is the number of pods (%d)",
						processes, w.gang.Size),
					fix: fmt.Sprintf("set %s: %q", gang.AnnotationNprocPerNode, strconv.FormatInt(processes, 10)),
				})
			}
		}
	}
	return issues
}

func checkElasticWithoutTorchrun(_ *input, w *labeledWorkload) []issue {
	if w.gang.Framework.Name != "pytorch" || w.gang.Elastic == nil {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		if script, ok := findSinglePythonScript(c.parseCommand()); ok {
			issues = append(issues, issue{
				field: c.commandPath(),
				message: fmt.Sprintf("python %s gets neither RANK nor WORLD_SIZE, because torchrun sets them in an elastic gang",
					script),
				fix: "start it with torchrun, or remove " + gang.AnnotationElastic,
			})
		}
	}
	return issues
}
