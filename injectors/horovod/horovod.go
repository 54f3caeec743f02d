package horovod

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// Injector is the injector for Horovod. The zero value is ready to use.
type Injector struct{}

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
