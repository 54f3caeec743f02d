package deepspeed

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// Port is DeepSpeed's own default (deepspeed/constants.py,
// TORCH_DISTRIBUTED_DEFAULT_PORT).
const Port = 29500

// jobPath is the folder in which the launcher looks for its hostfile.
const jobPath = "/job"

// Injector is the deepspeed injector; its zero value is ready.
type Injector struct{}

// Framework declares deepspeed.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "deepspeed",
		Roles: []gang.Role{
			{Name: gang.RoleLauncher, Max: 1, Requires: []string{"worker"}, Decides: true},
			{Name: "worker"},
		},
		Role: "worker", Port: Port, PortName: "deepspeed", Launches: true,
	}
}

// Plan gives the ranks the variables of torch, or the launcher its hosts.
func (Injector) Plan(g gang.Gang) plan.Plan {
	if len(g.Members) == 1 {
		// Without it init_distributed looks for the ranks by MPI, even where all else is
		// set; torchrun gives each of its processes another.
		return plan.Plan{Env: append(rendezvous.Torch(g), plan.Value("LOCAL_RANK", "0").As(plan.Default))}
	}
	p := ssh.Plan(g, ssh.Options{Port: ssh.Port, Mounts: []string{jobPath}})
	p.Env = []plan.Env{rendezvous.Unbuffered()}
	if g.Role == gang.RoleLauncher {
		p.Env = append(p.Env, hostfile.Env(g)...)
	}
	return p
}
