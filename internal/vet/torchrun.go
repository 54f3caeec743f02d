package vet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
)

func torchrunChecks() []Check {
	return []Check{
		{
			Code: CodeTorchrunFlagConflict, Severity: Warning, checkGang: checkTorchrunFlagConflict,
			Title: "A flag of torchrun or accelerate conflicts with the gang",
			Why: "torchrun reads the PET_ variables as defaults of its flags, so a flag overrides the injected variable " +
				"(torch/distributed/argparse_util.py). A number of nodes or an address in the command does not follow " +
				"changes of the workload. If it is wrong, the ranks wait for each other until they time out. " +
				"`accelerate launch` passes its own flags to torchrun.",
			Fix: "Remove the flag of torchrun. Rollcall sets `PET_NNODES`, `PET_NODE_RANK` and `PET_NPROC_PER_NODE`, " +
				"and the address and port of rank 0. For accelerate, use `--machine_rank=$(ROLLCALL_RANK)`. " +
				"If the command runs a gang of fixed size, remove `" + gang.AnnotationElastic + "` instead.",
		},
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
			Code: CodeElasticWithoutTorchrun, Severity: Warning, checkGang: checkElasticWithoutTorchrun,
			Title: "The gang is elastic, but its command does not use torchrun",
			Why: "torchrun assigns the ranks of an elastic gang at each rendezvous, " +
				"so Rollcall does not inject `RANK` and `WORLD_SIZE`. A program without torchrun gets neither variable.",
			Fix: "Start the program with `torchrun`, or remove `" + gang.AnnotationElastic + "`.",
		},
	}
}

// torchrunSwitches are the flags of torchrun without a value.
var torchrunSwitches = []string{
	"standalone", "no-python", "m", "module", "run-path", "use-env", "virtual-local-rank", "h", "help",
}

// parseTorchrun returns the flags of a call of torchrun by name. Names have no leading dashes, and
// dashes instead of underscores. The second result reports whether the program is the deprecated
// torch.distributed.launch, the third whether it is torchrun at all.
func (p program) parseTorchrun() (flags map[string]argument, deprecated, ok bool) {
	args := p.args
	if module, _, moduleArgs, isPython := p.parsePython(); isPython {
		deprecated = module == "torch.distributed.launch"
		if !deprecated && module != "torch.distributed.run" {
			return nil, false, false
		}
		args = moduleArgs
	} else if p.name != "torchrun" {
		return nil, false, false
	}
	return parseFlags(args, torchrunSwitches), deprecated, true
}

// accelerateSwitches are the flags of accelerate launch without a value.
var accelerateSwitches = []string{
	"cpu", "multi-gpu", "tpu", "ipex", "use-xpu", "use-mps-device", "use-deepspeed", "use-fsdp", "use-megatron-lm",
	"use-parallelism-config", "debug", "m", "module", "no-python", "q", "quiet", "same-network", "tpu-cluster",
	"no-tpu-cluster", "tpu-use-sudo", "downcast-bf16", "enable-cpu-affinity", "h", "help",
}

// parseAccelerate returns the flags of a call of accelerate launch by name, in the form of
// parseTorchrun. It returns false for other programs.
func (p program) parseAccelerate() (map[string]argument, bool) {
	if module, _, args, ok := p.parsePython(); ok && module == "accelerate.commands.launch" {
		return parseFlags(args, accelerateSwitches), true
	}
	if p.name != "accelerate" || len(p.args) == 0 || p.args[0].text != "launch" {
		return nil, false
	}
	return parseFlags(p.args[1:], accelerateSwitches), true
}

// parseFlags returns the flags before the first argument of another form. Names have no leading
// dashes, and dashes instead of underscores.
func parseFlags(args []argument, switches []string) map[string]argument {
	flags := map[string]argument{}
	for i := 0; i < len(args) && args[i].known && strings.HasPrefix(args[i].text, "-"); i++ {
		name, value, hasInlineValue := strings.Cut(strings.TrimLeft(args[i].text, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		switch {
		case hasInlineValue:
			flags[name] = argument{text: value, known: true}
		case slices.Contains(switches, name) || i+1 == len(args):
			flags[name] = argument{}
		default:
			i++
			flags[name] = args[i]
		}
	}
	return flags
}

// usesTorchrunVars reports whether the pods get the variables of torchrun.
func (w *labeledWorkload) usesTorchrunVars() bool {
	framework := w.gang.Framework.Name
	return framework == "pytorch" || framework == "deepspeed" && len(w.gang.Members) == 1
}

func checkTorchrunFlagConflict(_ *input, w *labeledWorkload) []issue {
	if !w.usesTorchrunVars() {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, p := range c.parseCommand().programs {
			var conflicts []flagConflict
			if flags, _, ok := p.parseTorchrun(); ok {
				conflicts = findTorchrunConflicts(w.gang, c.parsed, flags)
			} else if flags, ok := p.parseAccelerate(); ok {
				conflicts = findAccelerateConflicts(w.gang, flags)
			}
			for _, conflict := range conflicts {
				issues = append(issues, issue{field: c.commandPath(), message: conflict.message, fix: conflict.fix})
			}
		}
	}
	return issues
}

// flagConflict is a flag that contradicts the gang. The fields have the meaning of the fields of
// Finding with the same names.
type flagConflict struct{ message, fix string }

// findTorchrunConflicts returns the flags of torchrun that contradict the gang or the container.
func findTorchrunConflicts(g *gang.Gang, c gang.Container, flags map[string]argument) []flagConflict {
	var conflicts []flagConflict
	add := func(fix, format string, args ...any) {
		conflicts = append(conflicts, flagConflict{message: fmt.Sprintf(format, args...), fix: fix})
	}
	const removeFlag = "remove the flag, because Rollcall configures torchrun with variables"
	if _, ok := flags["standalone"]; ok && g.Size > 1 {
		add(removeFlag, "--standalone makes each of the %d pods train separately", g.Size)
	}
	if nodes := flags["nnodes"]; nodes.known && !nodesFitGang(g, nodes.text) {
		fix := removeFlag
		if g.Elastic != nil {
			fix = fixForFixedNodes(g, nodes.text)
		}
		add(fix, "--nnodes=%s, but the gang has %s pods", nodes.text, formatNodes(g))
	}
	if rank := flags["node-rank"]; rank.known && g.Size > 1 && !assignsNodeRanks(g, flags) {
		if _, err := strconv.Atoi(rank.text); err == nil {
			add(removeFlag, "--node-rank=%s is the same in all %d pods of the gang", rank.text, g.Size)
		}
	}
	if processes := flags["nproc-per-node"]; processes.known {
		if message := explainProcessConflict(g, c, processes.text); message != "" {
			add(removeFlag, "%s", message)
		}
	}
	return conflicts
}

// explainProcessConflict returns why a value of --nproc-per-node contradicts the gang or the container;
// empty if it does not.
func explainProcessConflict(g *gang.Gang, c gang.Container, processes string) string {
	count, err := strconv.ParseInt(processes, 10, 32)
	switch {
	case g.Processes.Explicit && processes != g.Processes.String():
		return fmt.Sprintf("--nproc-per-node=%s, but %s sets %s processes in each pod",
			processes, gang.AnnotationNprocPerNode, g.Processes)
	case err == nil && c.Accelerators > 0 && count > c.Accelerators:
		return fmt.Sprintf("--nproc-per-node=%d, but the container %s has only %d accelerators",
			count, c.Name, c.Accelerators)
	default:
		return ""
	}
}

// fixForFixedNodes returns the remedy for an elastic gang whose command has a fixed number of
// nodes. Without the flag, an autoscaler could start more pods than the author expects.
func fixForFixedNodes(g *gang.Gang, nodes string) string {
	if nodes == strconv.Itoa(int(g.Size)) {
		return fmt.Sprintf("remove %s, because the command runs a gang of fixed size", gang.AnnotationElastic)
	}
	return fmt.Sprintf("for a gang of fixed size, remove %s; for an elastic gang, remove the flag", gang.AnnotationElastic)
}

// findAccelerateConflicts returns the flags of accelerate launch that contradict the gang.
func findAccelerateConflicts(g *gang.Gang, flags map[string]argument) []flagConflict {
	var conflicts []flagConflict
	add := func(fix, format string, args ...any) {
		conflicts = append(conflicts, flagConflict{message: fmt.Sprintf(format, args...), fix: fix})
	}
	machines := flags["num-machines"]
	if _, err := strconv.Atoi(machines.text); err == nil && machines.known && machines.text != formatNodes(g) {
		fix := "set it to " + formatNodes(g)
		if g.Elastic != nil {
			fix = fmt.Sprintf("remove %s, because accelerate runs a fixed number of machines", gang.AnnotationElastic)
		}
		add(fix, "--num_machines=%s, but the gang has %s pods", machines.text, formatNodes(g))
	}
	rank := flags["machine-rank"]
	if _, err := strconv.Atoi(rank.text); err == nil && rank.known && g.Size > 1 && !assignsNodeRanks(g, flags) {
		add("use --machine_rank=$(ROLLCALL_RANK)",
			"--machine_rank=%s is the same in all %d pods of the gang", rank.text, g.Size)
	}
	return conflicts
}

// nodesFitGang reports whether a value of --nnodes, a number or a range, includes the size of the
// gang. An elastic gang needs a range.
func nodesFitGang(g *gang.Gang, nodes string) bool {
	bounds, err := gang.ParseElasticBounds(nodes)
	if g.Elastic != nil {
		return err == nil
	}
	return nodes == formatNodes(g) || err == nil && bounds.Min <= g.Size && g.Size <= bounds.Max
}

// assignsNodeRanks reports whether torchrun assigns the ranks of nodes. All rendezvous backends but
// static do.
func assignsNodeRanks(g *gang.Gang, flags map[string]argument) bool {
	backend, ok := flags["rdzv-backend"]
	return g.Elastic != nil || ok && backend.text != "static"
}

// formatNodes returns the number of pods in the format of --nnodes.
func formatNodes(g *gang.Gang) string {
	if g.Elastic != nil {
		return g.Elastic.String()
	}
	return strconv.Itoa(int(g.Size))
}

func checkTorchLaunchDeprecated(_ *input, w *labeledWorkload) []issue {
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, p := range c.parseCommand().programs {
			if _, deprecated, ok := p.parseTorchrun(); ok && deprecated {
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
}

// singlePythonScript returns the name of the Python script if the command runs exactly one and
// nothing else that could start more processes.
func (c command) singlePythonScript() (string, bool) {
	if c.mayRepeat {
		return "", false
	}
	found := ""
	for _, p := range c.programs {
		if slices.Contains(auxiliaryPrograms, p.name) {
			continue
		}
		_, script, _, ok := p.parsePython()
		if !ok || !strings.HasSuffix(script, ".py") || found != "" {
			return "", false
		}
		found = script
	}
	return found, found != ""
}

func checkSingleProcessCommand(_ *input, w *labeledWorkload) []issue {
	containers, processes := w.trainingContainers(), w.gang.Processes
	if !w.usesTorchrunVars() || w.gang.Elastic != nil || len(containers) == 0 || processes.Count < 2 {
		return nil
	}
	c := containers[0]
	script, ok := c.parseCommand().singlePythonScript()
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

func checkElasticWithoutTorchrun(_ *input, w *labeledWorkload) []issue {
	if w.gang.Framework.Name != "pytorch" || w.gang.Elastic == nil {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		if script, ok := c.parseCommand().singlePythonScript(); ok {
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
