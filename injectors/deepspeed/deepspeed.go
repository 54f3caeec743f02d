package deepspeed

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// defaultPort is the default of DeepSpeed (deepspeed/constants.py, TORCH_DISTRIBUTED_DEFAULT_PORT).
const defaultPort = 29500

// hostfileDir is the directory in which the deepspeed command expects its hostfile.
const hostfileDir = "/job"

// launchers are the launchers of DeepSpeed. The source of the flags is deepspeed/launcher/runner.py.
var launchers = []gang.LauncherProgram{{
	Name: "deepspeed", Programs: []string{"deepspeed"}, Modules: []string{"deepspeed.launcher.runner"},
	Switches: "module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid bind-cores-to-rank " +
		"q quiet h help",
	AddressFlags: "master_addr", RankFlag: "node_rank",
	HostFlags: "H hostfile no-ssh node-rank launcher h help autotuning",
}}

// Injector is the injector for DeepSpeed. The zero value is ready to use.
type Injector struct{ ssh.Diagnoser }

// Framework returns the declaration of DeepSpeed.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "deepspeed",
		Roles: []gang.Role{
			{Name: gang.RoleLauncher, MaxPods: 1, Requires: []string{"worker"}, DeterminesCompletion: true},
			{Name: "worker"},
		},
		DefaultRole: "worker",
		Port:        defaultPort,
		PortName:    "deepspeed",
		HasLauncher: true, SSHPort: ssh.Port, HasTorchrunVars: true, StartsByAccelerator: true,
		Launchers: launchers,
	}
}

// Plan returns the variables of torch for a gang without a launcher. For a gang with a launcher, it
// returns the setup of ssh, and the hosts for the launcher.
func (Injector) Plan(g gang.Gang) plan.Plan {
	if len(g.Members) == 1 {
		// Without LOCAL_RANK, init_distributed discovers the ranks with MPI, even if all other variables are
		// set. torchrun overrides the value for each of its processes.
		localRank := plan.LiteralEnv("LOCAL_RANK", "0").WithPolicy(plan.Suggest)
		return plan.Plan{Env: append(rendezvous.TorchEnv(g), localRank)}
	}
	p := ssh.Plan(g, ssh.Options{HostfileMountPaths: []string{hostfileDir}, RunsSSH: true})
	p.Env = append(p.Env, rendezvous.UnbufferedEnv())
	if g.Role == gang.RoleLauncher {
		p.Env = append(p.Env, hostfile.Env(g)...)
	}
	return p
}
