package pytorch

import (
	"slices"
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is PyTorchJob's default (training-operator, DefaultPort of
// pkg/apis/kubeflow.org/v1/pytorch_types.go).
const Port = 23456

// Injector is the pytorch injector; its zero value is ready.
type Injector struct{}

// Framework declares pytorch.
func (Injector) Framework() gang.Framework {
	return gang.Framework{Name: "pytorch", Roles: []string{"worker"}, Port: Port, PortName: "pytorch"}
}

// Plan gives every rank both families of rendezvous variables.
func (Injector) Plan(g gang.Gang) plan.Plan {
	world := int64(g.Size)
	if g.Processes.Explicit {
		world *= g.Processes.Count
	}
	env := slices.Concat(
		[]plan.Env{rendezvous.Unbuffered()},
		rendezvous.Master(g, ""),
		[]plan.Env{rendezvous.Rank(g, "RANK"), rendezvous.Size("WORLD_SIZE", world)},
		rendezvous.Master(g, "PET_"),
		[]plan.Env{
			rendezvous.Rank(g, "PET_NODE_RANK"),
			rendezvous.Size("PET_NNODES", int64(g.Size)),
			nproc(g),
		},
	)
	if n := threads(g); n > 0 {
		env = append(env, plan.Value("OMP_NUM_THREADS", strconv.FormatInt(n, 10)).As(plan.Default))
	}
	return plan.Plan{Env: env}
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
