package paddle

import (
	"fmt"
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is PaddleJob's default (training-operator, PaddleJobDefaultPort of
// pkg/apis/kubeflow.org/v1/paddlepaddle_types.go).
const Port = 36543

// roleMaster makes a gang one of parameter servers, as in PaddleJob.
const roleMaster = "master"

// indexEnv holds the pod's index by itself, for POD_IP to refer to.
const indexEnv = "PADDLE_POD_INDEX"

// Injector is the paddle injector; its zero value is ready.
type Injector struct{}

// Framework declares paddle.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "paddle",
		Roles: []gang.Role{
			{Name: roleMaster, Requires: []string{"worker"}, Decides: true},
			{Name: "worker"},
		},
		Role: "worker", Port: Port, PortName: "paddle",
	}
}

// Plan tells paddle.distributed.launch where its master is, and who it is itself.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := []plan.Env{
		rendezvous.Unbuffered(),
		plan.Value("PADDLE_JOB_ID", g.Name).As(plan.Default),
		rendezvous.Size("PADDLE_NNODES", int64(g.Size)),
	}
	if g.Size == 1 {
		return plan.Plan{Env: env} // with a master's address the launcher would wait for others
	}
	env = append(env,
		plan.Value("PADDLE_MASTER", fmt.Sprintf("%s:%d", g.Host(0), g.Port)).WithFix(rendezvous.FixPort),
		rendezvous.Rank(g, "PADDLE_RANK"),
		plan.FieldEnv(indexEnv, plan.PodLabelField(g.IndexLabel)),
		plan.Value("POD_IP", fmt.Sprintf("%s-$(%s).%s", g.Workload, indexEnv, g.Subdomain())),
	)
	if len(g.Members) > 1 {
		env = append(env, server(g))
	}
	return plan.Plan{Env: env}
}

// server is what a pod is in the mode of parameter servers: one server, or one trainer.
func server(g gang.Gang) plan.Env {
	name := "PADDLE_TRAINER_NUM"
	if g.Role == roleMaster {
		name = "PADDLE_SERVER_NUM"
	}
	return plan.Value(name, strconv.Itoa(1)).As(plan.Default)
}
