package hostfile

import (
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Where the launcher finds the list of hosts.
const (
	// Path has the form of the gang's MPI implementation.
	Path = "/etc/mpi/hostfile"
	// HydraPath has the form host:slots.
	HydraPath = "/etc/mpi/hostfile.hydra"
	// slotsPath has the form "host slots=n".
	slotsPath = "/etc/mpi/hostfile.slots"
)

// patience of ssh, for an ssh whose configuration the user mounted over ours. The Open
// MPI from 5 on cannot have it: where its workers start workers, it hands the text on
// without what follows the "=", and the daemons are lost (seen with 5.0.7).
const patience = "-o ConnectionAttempts=10"

// Env tells every launcher of MPI where the hosts are. A user may well know better:
// all of them are tunables.
func Env(g gang.Gang) []plan.Env {
	slots := strconv.FormatInt(g.Launch.Slots, 10)
	env := []plan.Env{
		// Open MPI up to 4.
		tunable("OMPI_MCA_orte_default_hostfile", slotsPath),
		tunable("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
		tunable("OMPI_MCA_orte_set_default_slots", slots),
		tunable("OMPI_MCA_plm_rsh_args", patience),
		// Open MPI from 5 on.
		tunable("PRTE_MCA_prte_default_hostfile", slotsPath),
		tunable("PRTE_MCA_prte_keep_fqdn_hostnames", "false"),
		tunable("PRTE_MCA_prte_set_default_slots", slots),
		// Intel MPI, which ignores the numbers of the file without the last of these, and
		// counts cores.
		tunable("I_MPI_HYDRA_HOST_FILE", HydraPath),
		tunable("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
		tunable("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", patience),
		tunable("I_MPI_PERHOST", slots),
		// MPICH.
		tunable("HYDRA_HOST_FILE", HydraPath),
		tunable("HYDRA_LAUNCHER_EXTRA_ARGS", patience),
		// A container's root is no more than its container; as root both Open MPIs want to
		// be told twice (ompi, orte/tools/orterun).
		tunable("OMPI_ALLOW_RUN_AS_ROOT", "1"),
		tunable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
	}
	return append(env, Blank(g)...)
}

// Blank hides accelerators that a launcher did not ask for: the container runtime of
// NVIDIA shows all of them to an image that does not say otherwise.
func Blank(g gang.Gang) []plan.Env {
	if g.Launch.Self || len(g.Containers) == 0 || g.Containers[0].Accelerators > 0 || g.Containers[0].Claims {
		return nil
	}
	return []plan.Env{tunable("NVIDIA_VISIBLE_DEVICES", ""), tunable("NVIDIA_DRIVER_CAPABILITIES", "")}
}

func tunable(name, value string) plan.Env { return plan.Value(name, value).As(plan.Default) }
