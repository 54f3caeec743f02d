package vet

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/command"
)

func launcherHostChecks() []Check {
	return []Check{{
		Code: CodeLauncherWithoutHosts, Severity: Warning, checkGang: checkLauncherWithoutHosts,
		Title: "A launcher starts processes on its own host only",
		Why: "Unlike mpirun, horovodrun reads no variable for its hostfile, and without hosts it uses localhost " +
			"(runner/launch.py of Horovod). In the pod of a launcher, all processes then run there, and the workers are idle. " +
			"deepspeed reads a hostfile only in the pod of a launcher (deepspeed/launcher/runner.py). " +
			"In a gang without the role launcher, both programs override the injected variables, " +
			"and each pod trains separately.",
		Fix: "Add `--hostfile " + hostfile.Path + "` to horovodrun in a launcher. " +
			"For an elastic gang, add `--host-discovery-script /etc/mpi/discover_hosts.sh`. " +
			"In a gang without the role launcher, start the program with `torchrun`, " +
			"or use the framework deepspeed or horovod with the roles launcher and worker.",
	}}
}

// hostOptions are the options with which a launcher does not use only its own host, or starts
// nothing. Names have no leading dashes, and dashes instead of underscores.
var hostOptions = map[command.Launcher][]string{
	command.Horovodrun: {
		"H", "hosts", "hostfile", "host-discovery-script", "config-file", "cb", "check-build", "h", "help",
	},
	command.DeepSpeed: {"H", "hostfile", "no-ssh", "node-rank", "launcher", "h", "help", "autotuning"},
}

func checkLauncherWithoutHosts(_ *input, w *labeledWorkload) []issue {
	if !w.hasMultiplePods() {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, l := range c.parseCommand().Launches() {
			found := issue{field: c.commandPath()}
			switch {
			case len(hostOptions[l.Launcher]) == 0 || slices.ContainsFunc(l.Args, func(a command.Argument) bool {
				return maySetHosts(l.Launcher, a)
			}):
				continue
			case w.usesTorchrunVars():
				found.message = fmt.Sprintf("%s uses only its own host, so each of the %d pods trains separately",
					l.Launcher, w.gang.Size)
				found.fix = "use torchrun, or add a workload with the role launcher"
			case l.Launcher == command.Horovodrun && w.hasSSHHosts() && w.gang.Role == gang.RoleLauncher:
				found.message = "horovodrun has no hosts, so all processes run in the pod of the launcher"
				found.fix = "add --hostfile " + hostfile.Path
			default:
				continue
			}
			issues = append(issues, found)
		}
	}
	return issues
}

// maySetHosts reports whether the argument is an option for hosts, or is unknown.
func maySetHosts(l command.Launcher, a command.Argument) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(a.Text, "-"), "=")
	isHostOption := slices.Contains(hostOptions[l], strings.ReplaceAll(name, "_", "-"))
	return !a.Known || strings.HasPrefix(a.Text, "-") && isHostOption
}
