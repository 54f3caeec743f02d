package gang

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Programs and Python modules that start the processes of a training program. They include the launchers of
// internal/command, which also has their flags.
var (
	launchers = []string{
		"torchrun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun", "deepspeed", "accelerate",
		"accelerate-launch", "composer",
	}
	launcherModules = map[string]string{
		"torch.distributed.run":           "torchrun",
		"torch.distributed.launch":        "torchrun",
		"accelerate.commands.launch":      "accelerate",
		"paddle.distributed.launch":       "paddle.distributed.launch",
		"deepspeed.launcher.runner":       "deepspeed",
		"composer.cli.launcher":           "composer",
		"horovod.runner.launch":           "horovodrun",
		"colossalai.cli":                  "colossalai",
		"torch_xla.distributed.xla_spawn": "torch_xla.distributed.xla_spawn",
	}
	// textPrograms only print, find or install what their arguments name.
	textPrograms = []string{
		"echo", "printf", "which", "command", "type", "pip", "pip3", "uv", "apt", "apt-get", "conda",
	}
)

// FindLauncher returns the name of the first launcher that the command of a container runs; empty if
// there is none. It reads the words of commands and scripts and does not parse the shell: it is an
// indication of which container trains, on an input of any size.
func FindLauncher(c *corev1.Container) string {
	var text strings.Builder
	for _, arg := range slices.Concat(c.Command, c.Args) {
		separator := " "
		if isScript := strings.ContainsAny(arg, " \t\n"); isScript {
			separator = "\n"
		}
		text.WriteString(separator + arg)
	}
	for line := range strings.FieldsFuncSeq(text.String(), isCommandSeparator) {
		if launcher := findLauncherInWords(line); launcher != "" {
			return launcher
		}
	}
	return ""
}

func isCommandSeparator(r rune) bool { return strings.ContainsRune("\n;&|", r) }

// findLauncherInWords returns the launcher in the words of one command.
func findLauncherInWords(line string) string {
	isFirst := true
	for word := range strings.FieldsSeq(line) {
		word = strings.Trim(word, `"'(){}`)
		name := path.Base(word)
		switch {
		case isFirst && (strings.HasPrefix(word, "#") || slices.Contains(textPrograms, name) && !runsProgram(line)):
			return ""
		case slices.Contains(launchers, name):
			return name
		case launcherModules[word] != "":
			return launcherModules[word]
		}
		isFirst = false
	}
	return ""
}

// runsProgram reports whether a command such as uv or conda runs the program in its arguments.
func runsProgram(line string) bool {
	words := strings.Fields(line[:min(len(line), 256)])
	return len(words) > 1 && words[1] == "run"
}
