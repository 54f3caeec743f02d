package rendezvous

import (
	"fmt"
	"slices"
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Bounds of an elastic run, within which torchrun goes on.
const (
	// maxRestarts is how often torchrun starts its processes anew after a failure. A pod
	// that is taken away fails the processes of all others, so torchrun's own default of
	// 0 would end the gang with its first pod.
	maxRestarts = 3
	// joinSeconds is how long the first ranks wait for the smallest number of them:
	// nodes that are made on demand come within 15 minutes on the large clouds, and
	// images of 20 GB within as many. torchrun's default is 10 minutes.
	joinSeconds = 1800
)

// Torch is what torch.distributed reads in a rank (MASTER_ADDR and its kin), and what
// torchrun reads in a pod (PET_, torch/distributed/argparse_util.py).
//
// An elastic gang has no fixed ranks: torchrun hands them out at each rendezvous, so
// it is told where that is and how many pods may come.
func Torch(g gang.Gang) []plan.Env {
	env := []plan.Env{Unbuffered()}
	if g.Elastic != nil {
		env = append(env, elastic(g)...)
	} else {
		world := int64(g.Size)
		if g.Processes.Explicit {
			world *= g.Processes.Count
		}
		env = slices.Concat(env,
			Master(g, ""),
			[]plan.Env{Rank(g, "RANK"), Size("WORLD_SIZE", world)},
			Master(g, "PET_"),
			[]plan.Env{Rank(g, "PET_NODE_RANK"), Size("PET_NNODES", int64(g.Size))},
		)
	}
	env = append(env, nproc(g))
	if n := threads(g); n > 0 {
		env = append(env, plan.Value("OMP_NUM_THREADS", strconv.FormatInt(n, 10)).As(plan.Default))
	}
	return env
}

// elastic is what PyTorchJob gives elastic gangs (training-operator,
// pkg/controller.v1/pytorch/elastic.go). The rendezvous is kept by rank 0, which an
// elastic gang cannot do without, unless its user names another backend and where that
// is. Whoever sets one of torchrun's parameters has read of it there, so all but the
// number of nodes give way without a word.
func elastic(g gang.Gang) []plan.Env {
	nodes := *g.Elastic
	for _, m := range g.Members {
		if m.Role != g.Framework.Elastic { // a master, say, takes part as well
			nodes.Min, nodes.Max = nodes.Min+m.Size, nodes.Max+m.Size
		}
	}
	return []plan.Env{
		plan.Value("PET_NNODES", nodes.String()).WithFix("choose the bounds with the annotation " + gang.AnnotationElastic),
		plan.Value("PET_RDZV_BACKEND", "c10d").As(plan.Yield),
		plan.Value("PET_RDZV_ENDPOINT", fmt.Sprintf("%s:%d", g.Host(0), g.Port)).As(plan.Yield),
		plan.Value("PET_RDZV_ID", g.Name).As(plan.Yield),
		plan.Value("PET_RDZV_CONF", fmt.Sprintf("join_timeout=%d", joinSeconds)).As(plan.Yield),
		plan.Value("PET_MAX_RESTARTS", strconv.Itoa(maxRestarts)).As(plan.Yield),
	}
}

// nproc lets the user set PET_NPROC_PER_NODE by hand, as long as no annotation
// says otherwise: WORLD_SIZE was multiplied by the annotation's number.
func nproc(g gang.Gang) plan.Env {
	e := plan.Value("PET_NPROC_PER_NODE", g.Processes.String()).
		WithFix("choose the number with the annotation " + gang.AnnotationNproc)
	if g.Processes.Explicit {
		return e
	}
	return e.As(plan.Default)
}

// threads shares the CPU limit out among the processes. Without the variable each
// process starts a thread for every core of the host, and a pod of 8 processes
// fights itself; torchrun's own default of 1 leaves cores idle. 0 means that
// there is no limit to share.
func threads(g gang.Gang) int64 {
	if len(g.Containers) == 0 || g.Containers[0].CPU == 0 {
		return 0
	}
	return max(1, g.Containers[0].CPU/max(1, g.Processes.Count))
}
