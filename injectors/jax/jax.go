package jax

import (
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default of JAXJob (training-operator, JAXJobDefaultPort in
// pkg/apis/kubeflow.org/v1/jax_types.go).
const defaultPort = 6666

// coordinatorPortVar is the variable with the port of the coordinator.
const coordinatorPortVar = "JAX_COORDINATOR_PORT"

// Injector is the injector for JAX. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of JAX.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name:           "jax",
		Roles:          []gang.Role{{Name: "worker"}},
		DefaultRole:    "worker",
		Port:           defaultPort,
		PortName:       "jax",
		NeedsOnlyRank0: true,
		PortVar:        coordinatorPortVar,
		Signature:      gang.Signature{Variables: `JAX_[A-Z_]+`, Words: `jax`},
	}
}

// Plan returns the address of the coordinator, the number of processes and the index of the process.
func (Injector) Plan(g gang.Gang) plan.Plan {
	host, port := g.RankFQDN(0), strconv.Itoa(int(g.Port))
	return plan.Plan{Env: slices.Concat(
		[]plan.Env{
			rendezvous.UnbufferedEnv(),
			plan.LiteralEnv("JAX_COORDINATOR_ADDRESS", host+":"+port).WithMeaning(plan.Address),
			rendezvous.PortEnv(g, coordinatorPortVar),
			rendezvous.SizeEnv(g, "JAX_NUM_PROCESSES"),
			rendezvous.RankEnv(g, "JAX_PROCESS_ID"),
		},
		kubeflowEnv(g, host),
		slurmEnv(g, host),
	)}
}

// kubeflowEnv returns the variables of JAXJob (training-operator, pkg/controller.v1/jax/envvar.go). JAX does
// not read them, but programs that were written for JAXJob do.
func kubeflowEnv(g gang.Gang, host string) []plan.Env {
	if !g.HasKubeflowNames {
		return nil
	}
	return []plan.Env{
		plan.LiteralEnv("COORDINATOR_ADDRESS", host).WithMeaning(plan.Address),
		rendezvous.PortEnv(g, "COORDINATOR_PORT"),
		rendezvous.SizeEnv(g, "NUM_PROCESSES"),
		rendezvous.RankEnv(g, "PROCESS_ID"),
	}
}

// slurmEnv returns the variables by which JAX detects Slurm (jax/_src/clusters/slurm_cluster.py).
//
// If JAX detects Slurm, it limits each process to the device with its local index, which is 0. The
// variable JAX_LOCAL_DEVICE_IDS overrides this limit with a list of devices. The result is nil in
// two cases:
//
//   - The pod has resource claims. Their devices are not known at admission, so they cannot be
//     listed. Without the variables, a call of initialize without arguments fails. That is better
//     than a process that silently uses one of eight devices.
//   - The pod has TPUs. JAX must detect their own launcher.
func slurmEnv(g gang.Gang, host string) []plan.Env {
	if len(g.Containers) == 0 || g.Containers[0].HasResourceClaims || g.Containers[0].HasTPU {
		return nil
	}
	env := []plan.Env{
		plan.LiteralEnv("SLURM_JOB_ID", "0"), // must be a number, which JAX does not use
		plan.LiteralEnv("SLURM_STEP_NODELIST", host),
		rendezvous.SizeEnv(g, "SLURM_NTASKS"),
		rendezvous.RankEnv(g, "SLURM_PROCID"),
		plan.LiteralEnv("SLURM_LOCALID", "0"),
	}
	if n := g.Containers[0].Accelerators; n > 0 {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = strconv.Itoa(i)
		}
		env = append(env, plan.LiteralEnv("JAX_LOCAL_DEVICE_IDS", strings.Join(ids, ",")).WithPolicy(plan.Suggest))
	}
	return env
}
