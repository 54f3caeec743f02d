package hostfile

import (
	"slices"

	"rollcall.training/internal/agent"
	"rollcall.training/plan"
)

// sshVariables are variables of [Env] that are meaningful only with ssh. AgentEnv replaces the last.
var sshVariables = []string{
	"OMPI_MCA_plm_rsh_args", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP",
}

// AgentEnv returns the variables that make the launchers of all MPI implementations and of Horovod call the agent
// instead of ssh. Workers need the variables, too, because Open MPI starts its daemons in a tree. Every variable
// has the policy Suggest.
func AgentEnv() []plan.Env {
	return []plan.Env{
		// Open MPI up to version 4. Horovod compares the value with this path, also without MPI.
		defaultEnv("OMPI_MCA_plm_rsh_agent", agent.RemoteShell),
		// Open MPI from version 5 on.
		defaultEnv("PRTE_MCA_plm_ssh_agent", agent.RemoteShell),
		// Hydra limits the number of connections per second if the launcher is ssh
		// (mpich, src/pm/hydra/tools/bootstrap/external/ssh.c).
		defaultEnv("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
		defaultEnv("I_MPI_HYDRA_BOOTSTRAP_EXEC", agent.RemoteShell),
		defaultEnv("HYDRA_LAUNCHER", "rsh"),
		defaultEnv("HYDRA_LAUNCHER_EXEC", agent.RemoteShell),
	}
}

// withoutSSH returns the variables that do not concern ssh.
func withoutSSH(env []plan.Env) []plan.Env {
	return slices.DeleteFunc(env, func(e plan.Env) bool { return slices.Contains(sshVariables, e.Name) })
}
