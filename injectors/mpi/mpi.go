package mpi

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

// launchers are the launchers of Open MPI, Intel MPI and MPICH. Only flags that are often used are listed.
var launchers = []gang.LauncherProgram{{
	Name: "mpirun", Programs: []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"},
	Switches: "allow-run-as-root tag-output timestamp-output report-bindings display-map display-allocation " +
		"q v verbose",
	Values: "np n c x bind-to map-by rank-by N npernode ppr wdir wd prefix output hostfile", Pairs: "mca",
	ProcessFlags: "np n c", HostProcessFlags: "npernode ppn perhost map-by", SSHParameters: "plm_rsh_args plm_ssh_args",
}}

// Injector is the injector for MPI. The zero value is ready to use.
type Injector struct{ ssh.Diagnoser }

// Framework returns the declaration of MPI.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "mpi",
		Roles: []gang.Role{
			{Name: gang.RoleLauncher, MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker", Requires: []string{gang.RoleLauncher}},
		},
		DefaultRole:    gang.RoleLauncher,
		Port:           ssh.Port,
		PortName:       ssh.PortName,
		HasLauncher:    true,
		RunsAnyProgram: true,
		Launchers:      launchers,
		Signature:      gang.Signature{Variables: `(?:OMPI_MCA|PRTE_MCA|I_MPI_HYDRA)_\w+`},
	}
}

// Plan returns the setup of ssh for all members, and the hosts for the launcher.
func (Injector) Plan(g gang.Gang) plan.Plan {
	p := ssh.Plan(g, ssh.Options{HydraHostfile: g.Launcher.MPI != gang.OpenMPI})
	if g.HasKubeflowNames { // a variable of mpi-operator, which no implementation of MPI reads
		p.Env = append(p.Env, plan.LiteralEnv("K_MPI_JOB_ROLE", g.Role).WithPolicy(plan.KeepUser))
	}
	if g.Role == gang.RoleLauncher {
		p.Env = append(p.Env, hostfile.Env(g)...)
	}
	return p
}
