package horovod

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// Injector is the horovod injector; its zero value is ready.
type Injector struct{}

// Framework declares horovod.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "horovod",
		Roles: []gang.Role{
			{Name: gang.RoleLauncher, Max: 1, Decides: true},
			{Name: "worker", Requires: []string{gang.RoleLauncher}},
		},
		Role: gang.RoleLauncher, Port: ssh.Port, PortName: ssh.PortName, Elastic: "worker", Launches: true,
	}
}

// Plan gives all members ssh, and the launcher its hosts.
func (Injector) Plan(g gang.Gang) plan.Plan {
	p := ssh.Plan(g, ssh.Options{})
	p.Env = []plan.Env{rendezvous.Unbuffered()}
	if g.Role == gang.RoleLauncher {
		p.Env = append(p.Env, hostfile.Env(g)...)
	}
	return p
}
