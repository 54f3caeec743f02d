package gang

import (
	"cmp"
	"slices"

	"rollcall.training/internal/command"
)

// LauncherProgram describes a program that starts the processes of training programs: its names and its flags.
type LauncherProgram = command.LauncherProgram

// Signature is how the programs of a framework are recognized in a container without a label. The fields are
// regular expressions; empty matches nothing.
type Signature struct {
	// Variables match variables that only these programs read, and Words the other words of their commands.
	Variables, Words string
	// SharedVariables match variables that programs of other frameworks read too.
	SharedVariables string
}

// Launchers returns the launchers of all frameworks.
func (fs Frameworks) Launchers() command.Launchers {
	var out command.Launchers
	for _, f := range fs {
		out = append(out, f.Launchers...)
	}
	return out
}

// Fallback returns the framework for programs of no other framework: the first one with AnyRoles.
func (fs Frameworks) Fallback() Framework {
	i := slices.IndexFunc(fs, func(f Framework) bool { return f.AnyRoles })
	if i < 0 {
		return Framework{}
	}
	return fs[i]
}

// LauncherNeedsWorkers reports whether a launcher cannot be the only role of a gang.
func (f Framework) LauncherNeedsWorkers() bool {
	launcher, _ := f.FindRole(RoleLauncher)
	return len(launcher.Requires) > 0
}

// DefaultSSHPort returns the port on which the workers of a launcher serve ssh by default.
func (f Framework) DefaultSSHPort() int32 { return cmp.Or(f.SSHPort, f.Port) }

// SSHPort returns the port on which the workers of a launcher serve ssh.
func (g Gang) SSHPort() int32 { return cmp.Or(g.Framework.SSHPort, g.Port) }

// UsesTorchrunVars reports whether the pods get the variables of torchrun.
func (g Gang) UsesTorchrunVars() bool { return g.Framework.HasTorchrunVars && !g.HasSSHHosts() }

// HasSSHHosts reports whether a launcher of the gang reaches the other pods with ssh.
func (g Gang) HasSSHHosts() bool { return g.Framework.HasLauncher && len(g.Members) > 1 }
