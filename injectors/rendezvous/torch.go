package rendezvous

import (
	"fmt"
	"slices"
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Limits of torchrun in an elastic gang.
const (
	// torchrunMaxRestarts is the number of times that torchrun restarts its processes after a failure. If a
	// pod is deleted, the processes of all other pods fail. With torchrun's default of 0, the first
	// deleted pod would fail the gang.
	torchrunMaxRestarts = 3
	// joinTimeoutSeconds is the time for which the first pods wait for the minimum number of pods. The
	// large clouds create nodes on demand within 15 minutes, and a node pulls an image of 20 GB within
	// another 15 minutes. torchrun's default is 10 minutes.
	joinTimeoutSeconds = 1800
)

// TorchEnv returns the variables of torch.distributed (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE) and the
// PET_ variables of torchrun (torch/distributed/argparse_util.py).
//
// An elastic gang has no fixed ranks, because torchrun assigns the ranks at each rendezvous. It gets the
// address of the rendezvous and the bounds of its size.
func TorchEnv(g gang.Gang) []plan.Env {
	env := []plan.Env{UnbufferedEnv()}
	if g.Elastic != nil {
		env = append(env, elasticEnv(g)...)
	} else {
		world := int64(g.Size)
		if g.Processes.Explicit {
			world *= g.Processes.Count
		}
		env = slices.Concat(env,
			MasterEnv(g, ""),
			[]plan.Env{
				RankEnv(g, "RANK"),
				plan.LiteralEnv("WORLD_SIZE", strconv.FormatInt(world, 10)).WithMeaning(plan.WorldSize),
			},
			MasterEnv(g, "PET_"),
			[]plan.Env{RankEnv(g, "PET_NODE_RANK"), SizeEnv(g, "PET_NNODES"), nodeRankEnv(g)},
		)
	}
	env = append(env, nprocPerNodeEnv(g))
	if n := threadsPerProcess(g); n > 0 {
		env = append(env, plan.LiteralEnv("OMP_NUM_THREADS", strconv.FormatInt(n, 10)).WithPolicy(plan.Suggest))
	}
	return env
}

// nodeRankEnv returns NODE_RANK, which Lightning (lightning_fabric/plugins/environments/lightning.py) and
// composer (composer/cli/launcher.py) read if they start the processes of a pod themselves. Without the
// variable, Lightning gives the same ranks to all pods. A user who sets it knows its meaning.
func nodeRankEnv(g gang.Gang) plan.Env { return RankEnv(g, "NODE_RANK").WithPolicy(plan.KeepUser) }

// LocalRankEnv returns LOCAL_RANK for pods with a single process. Without the variable, accelerate and
// the Trainer of transformers ignore RANK and WORLD_SIZE, so each pod trains separately
// (accelerate/state.py). The result is empty if the program may start several processes in each pod:
// Lightning starts none if the variable is set. torchrun overrides the value for each of its processes.
func LocalRankEnv(g gang.Gang) []plan.Env {
	hasOneAccelerator := len(g.Containers) > 0 && g.Containers[0].Accelerators == 1
	hasOneProcess := g.Processes.Count == 1 && (g.Processes.Explicit || hasOneAccelerator)
	if g.Elastic != nil || g.Size < 2 || !hasOneProcess {
		return nil
	}
	return []plan.Env{plan.LiteralEnv("LOCAL_RANK", "0").WithPolicy(plan.KeepUser)}
}

// elasticEnv returns the variables that PyTorchJob sets for elastic gangs (training-operator,
// pkg/controller.v1/pytorch/elastic.go), and the last one. Rank 0 serves the rendezvous, so the gang cannot
// lose rank 0, unless the user configures another backend and endpoint. All variables but PET_NNODES have the policy
// KeepUser: a user who sets a parameter of torchrun knows its meaning and needs no warning.
func elasticEnv(g gang.Gang) []plan.Env {
	nodes := *g.Elastic
	for _, m := range g.Members {
		// The pods of other roles, such as a master, are nodes as well.
		if m.Role != g.Framework.ElasticRole {
			nodes.Min, nodes.Max = nodes.Min+m.Size, nodes.Max+m.Size
		}
	}
	fallbackEnv := func(name, value string) plan.Env { return plan.LiteralEnv(name, value).WithPolicy(plan.KeepUser) }
	return []plan.Env{
		plan.LiteralEnv("PET_NNODES", nodes.String()).
			WithFix("choose the bounds with the annotation " + gang.AnnotationElastic),
		fallbackEnv("PET_RDZV_BACKEND", "c10d"),
		fallbackEnv("PET_RDZV_ENDPOINT", fmt.Sprintf("%s:%d", g.RankFQDN(0), g.Port)),
		fallbackEnv("PET_RDZV_ID", g.Name),
		fallbackEnv("PET_RDZV_CONF", fmt.Sprintf("join_timeout=%d", joinTimeoutSeconds)),
		fallbackEnv("PET_MAX_RESTARTS", strconv.Itoa(torchrunMaxRestarts)),
		// By default, processes use the store of torchrun, and torchrun keeps its address from the first rendezvous
		// (dynamic_rendezvous.py, next_rendezvous). A pod that joins later waits for the address, and fails after 60 s.
		fallbackEnv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
	}
}

// nprocPerNodeEnv returns PET_NPROC_PER_NODE. The user can override the variable, unless the annotation
// nproc-per-node contains a number: WORLD_SIZE is then a multiple of that number.
func nprocPerNodeEnv(g gang.Gang) plan.Env {
	e := plan.LiteralEnv("PET_NPROC_PER_NODE", g.Processes.String()).
		WithMeaning(plan.ProcessCount).WithFix("choose the number with the annotation " + gang.AnnotationNprocPerNode)
	if g.Processes.Explicit {
		return e
	}
	return e.WithPolicy(plan.Suggest)
}

// threadsPerProcess returns the CPU limit divided by the number of processes, or 0 if there is no limit.
// Without the variable OMP_NUM_THREADS, each process starts a thread for every core of the host, and
// the processes of a pod compete for its CPU. torchrun's default of 1 leaves cores idle.
func threadsPerProcess(g gang.Gang) int64 {
	if len(g.Containers) == 0 || g.Containers[0].CPU == 0 {
		return 0
	}
	return max(1, g.Containers[0].CPU/max(1, g.Processes.Count))
}
