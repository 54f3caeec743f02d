package tensorflow

import (
	"fmt"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is TFJob's default (training-operator, TFJobDefaultPort of
// pkg/apis/kubeflow.org/v1/tensorflow_types.go).
const Port = 2222

// indexEnv holds the task's index by itself, for TF_CONFIG to refer to.
const indexEnv = "TF_TASK_INDEX"

// Injector is the tensorflow injector; its zero value is ready.
type Injector struct{}

// Framework declares tensorflow.
func (Injector) Framework() gang.Framework {
	return gang.Framework{Name: "tensorflow", Roles: []string{"worker"}, Port: Port, PortName: "tensorflow"}
}

// Plan gives every task the cluster and its own place in it.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := []plan.Env{rendezvous.Unbuffered()}
	if g.Size > 1 {
		env = append(env, rendezvous.Rank(g, indexEnv), plan.Value("TF_CONFIG", config(g)).WithFix(rendezvous.FixSize))
	}
	return plan.Plan{Env: env}
}

// config is the text of TF_CONFIG. It is no valid JSON until the kubelet has put
// the index in, so it is not made by a JSON encoder; names and addresses are DNS
// names, which need no escaping.
func config(g gang.Gang) string {
	var tasks strings.Builder
	for i := range g.Size {
		if i > 0 {
			tasks.WriteByte(',')
		}
		fmt.Fprintf(&tasks, `"%s:%d"`, g.Host(i), g.Port)
	}
	return fmt.Sprintf(`{"cluster":{"%s":[%s]},"task":{"type":"%s","index":$(%s)},"environment":"cloud"}`,
		g.Role, tasks.String(), g.Role, indexEnv)
}
