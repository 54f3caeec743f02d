package mpi

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// Injector is the mpi injector; its zero value is ready.
type Injector struct{}

// Framework declares mpi.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "mpi",
		Roles: []gang.Role{
			{Name: gang.RoleLauncher, Max: 1, Decides: true},
			{Name: "worker", Requires: []string{gang.RoleLauncher}},
		},
		Role: gang.RoleLauncher, Port: ssh.Port, PortName: ssh.PortName, Launches: true,
	}
}

// Plan gives all members ssh, and the launcher its hosts.
func (Injector) Plan(g gang.Gang) plan.Plan {
	p := ssh.Plan(g, ssh.Options{Hydra: g.Launch.MPI != gang.OpenMPI})
	p.Env = []plan.Env{plan.Value("K_MPI_JOB_ROLE", g.Role).As(plan.Yield)}
	if g.Role == gang.RoleLauncher {
		p.Env = append(p.Env, hostfile.Env(g)...)
	}
	return p
}
