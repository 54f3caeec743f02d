package horovod

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// launchers are the launchers of Horovod. horovodrun reads no hostfile by default. Only flags that are often
// used are listed (horovod/runner/launch.py).
var launchers = []gang.LauncherProgram{{
	Name: "horovodrun", Programs: []string{"horovodrun"}, Modules: []string{"horovod.runner.launch"},
	Switches:     "v verbose gloo mpi disable-cache",
	Values:       "np num-proc p ssh-port network-interfaces start-timeout hostfile mpi-args",
	HostFlags:    "H hosts hostfile host-discovery-script config-file cb check-build h help",
	ProcessFlags: "np num-proc", SSHPortFlags: "p ssh-port",
}}

// Injector is the injector for Horovod. The zero value is ready to use.
type Injector struct{ ssh.Diagnoser }

// Framework returns the declaration of Horovod.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "horovod",
		Roles: []gang.Role{
			{Name: gang.RoleLauncher, MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker", Requires: []string{gang.RoleLauncher}},
		},
		DefaultRole: gang.RoleLauncher,
		Port:        ssh.Port,
		PortName:    ssh.PortName,
		ElasticRole: "worker",
		HasLauncher: true,
		Launchers:   launchers,
		Signature:   gang.Signature{Variables: `HOROVOD_[A-Z_]+`},
	}
}

// Plan returns the setup of ssh for all members, and the hosts for the launcher.
func (Injector) Plan(g gang.Gang) plan.Plan {
	p := ssh.Plan(g, ssh.Options{})
	p.Env = append(p.Env, rendezvous.UnbufferedEnv())
	if g.Role == gang.RoleLauncher {
		p.Env = append(p.Env, hostfile.Env(g)...)
	}
	return p
}
