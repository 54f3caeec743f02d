package jax

import (
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is JAXJob's default (training-operator, JAXJobDefaultPort of
// pkg/apis/kubeflow.org/v1/jax_types.go).
const Port = 6666

// Injector is the jax injector; its zero value is ready.
type Injector struct{}

// Framework declares jax.
func (Injector) Framework() gang.Framework {
	return gang.Framework{Name: "jax", Roles: []gang.Role{{Name: "worker"}}, Role: "worker", Port: Port, PortName: "jax"}
}

// Plan tells every process where the coordinator is, and which process it is.
func (Injector) Plan(g gang.Gang) plan.Plan {
	host, port, size := g.Host(0), strconv.Itoa(int(g.Port)), int64(g.Size)
	return plan.Plan{Env: slices.Concat(
		[]plan.Env{
			rendezvous.Unbuffered(),
			plan.Value("JAX_COORDINATOR_ADDRESS", host+":"+port).WithFix(rendezvous.FixPort),
			rendezvous.Size("JAX_NUM_PROCESSES", size),
			rendezvous.Rank(g, "JAX_PROCESS_ID"),
			plan.Value("COORDINATOR_ADDRESS", host),
			plan.Value("COORDINATOR_PORT", port).WithFix(rendezvous.FixPort),
			rendezvous.Size("NUM_PROCESSES", size),
			rendezvous.Rank(g, "PROCESS_ID"),
		},
		launcher(g, host),
	)}
}

// launcher is what JAX recognizes as Slurm (jax/_src/clusters/slurm_cluster.py).
// JAX then also limits each process to the device of its local index, 0, unless
// told which devices it has. Where they cannot be told, because they are behind
// resource claims, there is no launcher, and initialize wants its arguments: that
// is said aloud, one device of eight would not be. TPUs have a launcher of their
// own, which must not be preceded by another.
func launcher(g gang.Gang, host string) []plan.Env {
	if len(g.Containers) == 0 || g.Containers[0].Claims || g.Containers[0].TPU {
		return nil
	}
	env := []plan.Env{
		plan.Value("SLURM_JOB_ID", "0"), // has to be a number, and is used for none
		plan.Value("SLURM_STEP_NODELIST", host),
		rendezvous.Size("SLURM_NTASKS", int64(g.Size)),
		rendezvous.Rank(g, "SLURM_PROCID"),
		plan.Value("SLURM_LOCALID", "0"),
	}
	if n := g.Containers[0].Accelerators; n > 0 {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = strconv.Itoa(i)
		}
		env = append(env, plan.Value("JAX_LOCAL_DEVICE_IDS", strings.Join(ids, ",")).As(plan.Default))
	}
	return env
}
