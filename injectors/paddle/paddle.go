package paddle

import (
	"fmt"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default of PaddleJob (training-operator, PaddleJobDefaultPort in
// pkg/apis/kubeflow.org/v1/paddlepaddle_types.go).
const defaultPort = 36543

// roleMaster is the role of parameter servers, as in PaddleJob.
const roleMaster = "master"

// logDir is the directory for the output of all processes but the first. The default of the launcher is
// the working directory. If it is not writable, the launcher of rank 0 hangs.
const logDir = "/tmp/paddle"

// indexEnv is the variable with the index of the pod. The value of POD_IP refers to it.
const indexEnv = "PADDLE_POD_INDEX"

// launchers are the launchers of Paddle. The source of the flags is
// paddle/distributed/launch/context/args_envs.py.
var launchers = []gang.LauncherProgram{{
	Name: "paddle.distributed.launch", Modules: []string{"paddle.distributed.launch"},
	Switches: "h help", AddressFlags: "master",
}}

// Injector is the injector for Paddle. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of Paddle.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "paddle",
		Roles: []gang.Role{
			{Name: roleMaster, Requires: []string{"worker"}, LongRunning: true},
			{Name: "worker"},
		},
		DefaultRole: "worker", Port: defaultPort, PortName: "paddle",
		Launchers: launchers,
		Signature: gang.Signature{Variables: `PADDLE_[A-Z_]+`, Words: `paddle\.distributed|fleetrun`},
	}
}

// Plan returns the variables of paddle.distributed.launch: the address of the pod, and the address of the
// master or the endpoints of all servers and trainers. A gang of one pod gets no addresses.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := []plan.Env{
		rendezvous.UnbufferedEnv(),
		plan.LiteralEnv("PADDLE_JOB_ID", g.Name).WithPolicy(plan.Suggest),
		plan.LiteralEnv("PADDLE_LOG_DIR", logDir).WithPolicy(plan.Suggest),
	}
	if g.Size == 1 {
		return plan.Plan{Env: env}
	}
	env = append(env,
		plan.FieldEnv(indexEnv, plan.PodLabelFieldPath(g.IndexLabel)),
		plan.LiteralEnv("POD_IP", fmt.Sprintf("%s-$(%s).%s", g.WorkloadName, indexEnv, g.ServiceFQDN())),
	)
	if len(g.Members) > 1 {
		return plan.Plan{Env: append(env, parameterServerEnv(g)...)}
	}
	return plan.Plan{Env: append(env,
		plan.LiteralEnv("PADDLE_MASTER", fmt.Sprintf("%s:%d", g.RankFQDN(0), g.Port)).WithMeaning(plan.Address),
		rendezvous.SizeEnv(g, "PADDLE_NNODES"),
		rendezvous.RankEnv(g, "PADDLE_RANK"),
	)}
}

// parameterServerEnv returns the endpoints for parameter server mode. The launcher of each pod starts the
// endpoints that begin with its POD_IP. PaddleJob sets numbers of servers and trainers instead. They
// make every pod a server and a trainer, because the launcher treats 0 as 1
// (paddle/distributed/launch/controllers/ps.py).
func parameterServerEnv(g gang.Gang) []plan.Env {
	endpoints := map[string][]string{}
	for _, m := range g.Members {
		for i := range m.Size {
			endpoints[m.Role] = append(endpoints[m.Role], fmt.Sprintf("%s:%d", g.PodFQDN(m, i), g.Port))
		}
	}
	return []plan.Env{
		plan.LiteralEnv("PADDLE_SERVERS_ENDPOINTS", strings.Join(endpoints[roleMaster], ",")),
		plan.LiteralEnv("PADDLE_TRAINERS_ENDPOINTS", strings.Join(endpoints["worker"], ",")),
	}
}
