package hostfile

import (
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Paths of the list of hosts in the launcher.
const (
	// Path has the format of the gang's MPI implementation.
	Path = "/etc/mpi/hostfile"
	// hydraPath has the format "host:slots".
	hydraPath = "/etc/mpi/hostfile.hydra"
	// slotsPath has the format "host slots=n".
	slotsPath = "/etc/mpi/hostfile.slots"
)

// sshArgs are arguments of ssh. They take effect if the user replaces the injected configuration of ssh.
// Open MPI 5 does not get them. If its workers start other workers, it passes the text on without the
// part after "=", and the daemons fail to start (observed with 5.0.7).
const sshArgs = "-o ConnectionAttempts=10"

// Env returns the variables through which the launchers of all MPI implementations find the hosts. Every
// variable has the policy Suggest, so the values of the user take precedence.
func Env(g gang.Gang) []plan.Env {
	slots := strconv.FormatInt(g.Launcher.SlotsPerWorker, 10)
	env := []plan.Env{
		// Open MPI up to version 4.
		defaultEnv("OMPI_MCA_orte_default_hostfile", slotsPath),
		defaultEnv("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
		defaultEnv("OMPI_MCA_orte_set_default_slots", slots),
		defaultEnv("OMPI_MCA_plm_rsh_args", sshArgs),
		// Open MPI from version 5 on.
		defaultEnv("PRTE_MCA_prte_default_hostfile", slotsPath),
		defaultEnv("PRTE_MCA_prte_keep_fqdn_hostnames", "false"),
		defaultEnv("PRTE_MCA_prte_set_default_slots", slots),
		// Intel MPI. Without I_MPI_PERHOST, it ignores the slots of the file and uses the number of cores.
		defaultEnv("I_MPI_HYDRA_HOST_FILE", hydraPath),
		defaultEnv("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
		defaultEnv("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", sshArgs),
		defaultEnv("I_MPI_PERHOST", slots),
		// MPICH.
		defaultEnv("HYDRA_HOST_FILE", hydraPath),
		defaultEnv("HYDRA_LAUNCHER_EXTRA_ARGS", sshArgs),
		// Open MPI requires both variables to run as root (ompi, orte/tools/orterun). The root user of a
		// container has no permissions outside of the container.
		defaultEnv("OMPI_ALLOW_RUN_AS_ROOT", "1"),
		defaultEnv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
	}
	if g.Launcher.UsesAgent() {
		env = withoutSSH(env)
	}
	return append(env, hideAccelerators(g)...)
}

// hideAccelerators returns variables that hide the accelerators of the node from a launcher that requests
// none. By default, the container runtime of NVIDIA exposes all accelerators to an image.
func hideAccelerators(g gang.Gang) []plan.Env {
	if g.Launcher.RunAsWorker || len(g.Containers) == 0 {
		return nil
	}
	usesAccelerators := g.Containers[0].Accelerators > 0 || g.Containers[0].HasResourceClaims
	if usesAccelerators {
		return nil
	}
	return []plan.Env{defaultEnv("NVIDIA_VISIBLE_DEVICES", ""), defaultEnv("NVIDIA_DRIVER_CAPABILITIES", "")}
}

func defaultEnv(name, value string) plan.Env {
	return plan.LiteralEnv(name, value).WithPolicy(plan.Suggest)
}
