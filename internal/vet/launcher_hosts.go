package vet

import (
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/command"
)

func checkLauncherWithoutHosts(r *reporter, w *labeledWorkload) {
	if !w.hasMultiplePods() {
		return
	}
	for _, c := range w.trainingContainers() {
		for _, l := range w.launchers.FindAll(c.parseCommand()) {
			switch {
			case l.HostFlags == "" || slices.ContainsFunc(l.Args, func(a command.Argument) bool { return maySetHosts(l, a) }):
			case w.gang.UsesTorchrunVars():
				r.add(c.commandPath(), "use torchrun, or add a workload with the role launcher",
					"%s uses only its own host, so each of the %d pods trains separately", l.Name, w.gang.Size)
			case l.ProcessFlags != "" && w.gang.HasSSHHosts() && w.gang.Role == gang.RoleLauncher:
				r.add(c.commandPath(), "add --hostfile "+hostfile.Path,
					"%s has no hosts, so all processes run in the pod of the launcher", l.Name)
			}
		}
	}
}

// maySetHosts reports whether the argument is an option for hosts, or is unknown.
func maySetHosts(l command.Launch, a command.Argument) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(a.Text, "-"), "=")
	isHostOption := command.ContainsFlag(l.HostFlags, strings.ReplaceAll(name, "_", "-"))
	return !a.Known || strings.HasPrefix(a.Text, "-") && isHostOption
}
