package vet

import (
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/command"
)

// hostOptions are the options with which a launcher does not use only its own host, or starts
// nothing. Names have no leading dashes, and dashes instead of underscores.
var hostOptions = map[command.Launcher][]string{
	command.Horovodrun: {
		"H", "hosts", "hostfile", "host-discovery-script", "config-file", "cb", "check-build", "h", "help",
	},
	command.DeepSpeed: {"H", "hostfile", "no-ssh", "node-rank", "launcher", "h", "help", "autotuning"},
}

func checkLauncherWithoutHosts(r *reporter, w *labeledWorkload) {
	if !w.hasMultiplePods() {
		return
	}
	for _, c := range w.trainingContainers() {
		for _, l := range c.parseCommand().Launches() {
			switch {
			case len(hostOptions[l.Launcher]) == 0 || slices.ContainsFunc(l.Args, func(a command.Argument) bool {
				return maySetHosts(l.Launcher, a)
			}):
			case w.usesTorchrunVars():
				r.add(c.commandPath(), "use torchrun, or add a workload with the role launcher",
					"%s uses only its own host, so each of the %d pods trains separately", l.Launcher, w.gang.Size)
			case l.Launcher == command.Horovodrun && w.hasSSHHosts() && w.gang.Role == gang.RoleLauncher:
				r.add(c.commandPath(), "add --hostfile "+hostfile.Path,
					"horovodrun has no hosts, so all processes run in the pod of the launcher")
			}
		}
	}
}

// maySetHosts reports whether the argument is an option for hosts, or is unknown.
func maySetHosts(l command.Launcher, a command.Argument) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(a.Text, "-"), "=")
	isHostOption := slices.Contains(hostOptions[l], strings.ReplaceAll(name, "_", "-"))
	return !a.Known || strings.HasPrefix(a.Text, "-") && isHostOption
}
