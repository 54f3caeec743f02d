package paddle

import (
	"fmt"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is PaddleJob's default (training-operator, PaddleJobDefaultPort of
// pkg/apis/kubeflow.org/v1/paddlepaddle_types.go).
const Port = 36543

// roleMaster makes a gang one of parameter servers, as in PaddleJob.
const roleMaster = "master"

// logDir is where the launcher writes what its processes print beyond the first. Its
// default is the working directory, and where that cannot be written to, the launcher of
// rank 0 hangs.
const logDir = "/tmp/paddle"

// indexEnv holds the pod's index by itself, for POD_IP to refer to.
const indexEnv = "PADDLE_POD_INDEX"

// Injector is the paddle injector; its zero value is ready.
type Injector struct{}

// Framework declares paddle.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "paddle",
		Roles: []gang.Role{
			{Name: roleMaster, Requires: []string{"worker"}, Serves: true},
			{Name: "worker"},
		},
		Role: "worker", Port: Port, PortName: "paddle",
	}
}

// Plan tells paddle.distributed.launch where its master is, or its servers and
// trainers, and who it is itself. A gang of one meets nobody.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := []plan.Env{
		rendezvous.Unbuffered(),
		plan.Value("PADDLE_JOB_ID", g.Name).As(plan.Default),
		plan.Value("PADDLE_LOG_DIR", logDir).As(plan.Default),
	}
	if g.Size == 1 {
		return plan.Plan{Env: env}
	}
	env = append(env,
		plan.FieldEnv(indexEnv, plan.PodLabelField(g.IndexLabel)),
		plan.Value("POD_IP", fmt.Sprintf("%s-$(%s).%s", g.Workload, indexEnv, g.Subdomain())),
	)
	if len(g.Members) > 1 {
		return plan.Plan{Env: append(env, servers(g)...)}
	}
	return plan.Plan{Env: append(env,
		plan.Value("PADDLE_MASTER", fmt.Sprintf("%s:%d", g.Host(0), g.Port)).WithFix(rendezvous.FixPort),
		rendezvous.Size("PADDLE_NNODES", int64(g.Size)),
		rendezvous.Rank(g, "PADDLE_RANK"),
	)}
}

// servers are the endpoints of the mode of parameter servers. The launcher of each pod
// runs those that begin with its own POD_IP. The numbers that PaddleJob gives instead
// make every pod a server and a trainer, since 0 counts as 1 there
// (paddle/distributed/launch/controllers/ps.py).
func servers(g gang.Gang) []plan.Env {
	endpoints := map[string][]string{}
	for _, m := range g.Members {
		for i := range m.Size {
			endpoints[m.Role] = append(endpoints[m.Role], fmt.Sprintf("%s:%d", g.HostOf(m, i), g.Port))
		}
	}
	return []plan.Env{
		plan.Value("PADDLE_SERVERS_ENDPOINTS", strings.Join(endpoints[roleMaster], ",")).WithFix(rendezvous.FixSize),
		plan.Value("PADDLE_TRAINERS_ENDPOINTS", strings.Join(endpoints["worker"], ",")).WithFix(rendezvous.FixSize),
	}
}
