package command

import (
	"path"
	"slices"
	"strings"
)

// Launcher is the name of a program that starts the processes of a training program.
type Launcher string

// The known launchers.
const (
	Torchrun   Launcher = "torchrun"
	Accelerate Launcher = "accelerate"
	Composer   Launcher = "composer"
	DeepSpeed  Launcher = "deepspeed"
	Horovodrun Launcher = "horovodrun"
	Mpirun     Launcher = "mpirun"
	Paddle     Launcher = "paddle.distributed.launch"
	ColossalAI Launcher = "colossalai"
	XLASpawn   Launcher = "torch_xla.distributed.xla_spawn"
)

// launcher describes how a launcher is called.
type launcher struct {
	name Launcher
	// programs are the names of the executable, modules the modules with the same effect. With a
	// subcommand, the first program is a launcher only if the subcommand follows.
	programs, modules []string
	subcommand        string
	// switches are the flags without a value, in the form of [Launch.Flags] and separated by spaces. An unlisted
	// flag has a value, unless values are listed too: the rest after an unlisted flag is then unknown.
	switches, values string
	// pairs are the flags with two values.
	pairs string
}

// Flags of mpirun and horovodrun. Only those that are often used are listed.
const (
	mpiSwitches = "allow-run-as-root tag-output timestamp-output report-bindings display-map display-allocation " +
		"q v verbose gloo mpi disable-cache"
	mpiValues = "np n c num-proc x bind-to map-by rank-by N npernode ppr wdir wd prefix output p ssh-port " +
		"network-interfaces start-timeout hostfile mpi-args"
)

// launchers are the known launchers. The sources of the flags are torch/distributed/run.py,
// accelerate/commands/launch.py, composer/cli/launcher.py and deepspeed/launcher/runner.py.
var launchers = []launcher{
	{
		name: Torchrun, programs: []string{"torchrun"},
		modules:  []string{"torch.distributed.run", deprecatedModule},
		switches: "standalone no-python m module run-path use-env virtual-local-rank h help",
	},
	{
		name: Accelerate, programs: []string{"accelerate", "accelerate-launch"}, subcommand: "launch",
		modules: []string{"accelerate.commands.launch"},
		switches: "cpu multi-gpu tpu ipex use-xpu use-mps-device use-deepspeed use-fsdp use-megatron-lm " +
			"use-parallelism-config debug m module no-python q quiet same-network tpu-cluster no-tpu-cluster " +
			"tpu-use-sudo downcast-bf16 enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic " +
			"dynamo-use-regional-compilation h help",
	},
	{
		name: Composer, programs: []string{"composer"}, modules: []string{"composer", "composer.cli.launcher"},
		switches: "v verbose m module-mode c command-mode version h help",
	},
	{
		name: DeepSpeed, programs: []string{"deepspeed"}, modules: []string{"deepspeed.launcher.runner"},
		switches: "module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid bind-cores-to-rank " +
			"q quiet h help",
	},
	{
		name: Horovodrun, programs: []string{"horovodrun"}, modules: []string{"horovod.runner.launch"},
		switches: mpiSwitches, values: mpiValues, pairs: "mca",
	},
	{
		name: Mpirun, programs: []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"},
		switches: mpiSwitches, values: mpiValues, pairs: "mca",
	},
	{name: Paddle, modules: []string{"paddle.distributed.launch"}},
	{name: ColossalAI, modules: []string{"colossalai.cli"}},
	{name: XLASpawn, modules: []string{"torch_xla.distributed.xla_spawn"}},
}

// deprecatedModule is the module that torchrun replaced.
const deprecatedModule = "torch.distributed.launch"

// Launch is a call of a launcher.
type Launch struct {
	Launcher Launcher
	// Program is the name or the module with which the launcher was called.
	Program string
	// Args are the arguments of the launcher, without a subcommand.
	Args []Argument

	table launcher
}

// Deprecated reports whether the launcher is torch.distributed.launch.
func (l Launch) Deprecated() bool { return l.Program == deprecatedModule }

// Launch returns the program as a call of a launcher: the executable, its module or its script that
// Python runs. It returns false for other programs.
func (p Program) Launch() (Launch, bool) {
	name, module, args := p.Name, "", p.Args
	if python, ok := p.Python(); ok {
		name, module, args = path.Base(python.Script), python.Module, python.Args
	}
	for _, l := range launchers {
		isProgram := module == "" && slices.Contains(l.programs, name)
		isModule := slices.Contains(l.modules, module)
		needsSubcommand := isProgram && l.subcommand != "" && name == l.programs[0]
		switch {
		case !isProgram && !isModule:
			continue
		case needsSubcommand && (len(args) == 0 || args[0].Text != l.subcommand):
			return Launch{}, false
		case needsSubcommand:
			args = args[1:]
		}
		called := name
		if isModule {
			called = module
		}
		return Launch{Launcher: l.name, Program: called, Args: args, table: l}, true
	}
	return Launch{}, false
}

// Flags returns the flags before the training program by name. Names have no leading dashes, and
// dashes instead of underscores. The value of a flag without a value is an unknown argument. The
// result is incomplete if a variable precedes the training program, because the variable can contain
// flags. The result is empty for launchers without a table of flags.
func (l Launch) Flags() (flags map[string]Argument, complete bool) {
	flags = map[string]Argument{}
	if l.table.switches == "" {
		return flags, false
	}
	for i := 0; i < len(l.Args); i++ {
		arg := l.Args[i]
		if !strings.HasPrefix(arg.Text, "-") {
			return flags, arg.Known
		}
		name, value, hasInlineValue := strings.Cut(strings.TrimLeft(arg.Text, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		count, known := l.table.countValues(name)
		switch {
		case !known || !arg.Known && !hasInlineValue:
			return flags, false
		case hasInlineValue:
			flags[name] = Argument{Text: value, Known: arg.Known}
		case count == 0 || i+count >= len(l.Args):
			flags[name] = Argument{}
		default:
			flags[name] = l.Args[i+1]
			i += count
		}
	}
	return flags, true
}

// countValues returns the number of words that follow a flag. It returns false if the flag is unknown.
func (l launcher) countValues(name string) (int, bool) {
	contains := func(names string) bool { return slices.Contains(strings.Fields(names), name) }
	switch {
	case contains(l.switches):
		return 0, true
	case contains(l.pairs):
		return 2, true
	}
	return 1, l.values == "" || contains(l.values)
}
