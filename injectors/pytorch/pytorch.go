package pytorch

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
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
	addr, port, size := g.Host(0), strconv.Itoa(int(g.Port)), int64(g.Size)
	world := size
	if g.Processes.Explicit {
		world *= g.Processes.Count
	}
	const byPort = "choose the port with the annotation " + gang.AnnotationPort
	const bySize = "change the number of ranks of the workload"
	rank := plan.PodLabelField(g.IndexLabel)
	p := plan.Plan{Env: []plan.Env{
		{EnvVar: value("PYTHONUNBUFFERED", "1"), Policy: plan.Default},
		{EnvVar: value("MASTER_ADDR", addr)},
		{EnvVar: value("MASTER_PORT", port), Fix: byPort},
		plan.FieldEnv("RANK", rank),
		{EnvVar: value("WORLD_SIZE", strconv.FormatInt(world, 10)), Fix: bySize},
		{EnvVar: value("PET_MASTER_ADDR", addr)},
		{EnvVar: value("PET_MASTER_PORT", port), Fix: byPort},
		plan.FieldEnv("PET_NODE_RANK", rank),
		{EnvVar: value("PET_NNODES", strconv.FormatInt(size, 10)), Fix: bySize},
		{EnvVar: value("PET_NPROC_PER_NODE", g.Processes.String()), Policy: nprocPolicy(g),
			Fix: "choose the number with the annotation " + gang.AnnotationNproc},
	}}
	if n := threads(g); n > 0 {
		p.Env = append(p.Env, plan.Env{EnvVar: value("OMP_NUM_THREADS", strconv.FormatInt(n, 10)), Policy: plan.Default})
	}
	return p
}

// nprocPolicy lets the user set PET_NPROC_PER_NODE by hand, as long as no
// annotation says otherwise: WORLD_SIZE was multiplied by the annotation's number.
func nprocPolicy(g gang.Gang) plan.Policy {
	if g.Processes.Explicit {
		return plan.Own
	}
	return plan.Default
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

func value(name, v string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: v} }
