package tensorflow

import (
	"fmt"
	"strconv"
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

// roleEvaluator is the role that watches the training from outside.
const roleEvaluator = "evaluator"

// Injector is the tensorflow injector; its zero value is ready.
type Injector struct{}

// Framework declares tensorflow.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "tensorflow",
		Roles: []gang.Role{
			{Name: "master", Max: 1, Excludes: []string{"chief"}, Decides: true}, // the chief's name in TensorFlow 1
			{Name: "chief", Max: 1, Decides: true},
			{Name: "worker"},
			{Name: "ps", Requires: []string{"worker"}, Serves: true},
			{Name: roleEvaluator, Requires: []string{"worker"}, Serves: true},
		},
		Role: "worker", First: "worker", Port: Port, PortName: "tensorflow",
	}
}

// Plan gives every task the cluster and its own place in it.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := []plan.Env{rendezvous.Unbuffered()}
	if g.Size > 1 {
		env = append(env, plan.FieldEnv(indexEnv, plan.PodLabelField(g.IndexLabel)), plan.Value("TF_CONFIG", config(g)).WithFix(rendezvous.FixSize))
	}
	return plan.Plan{Env: env}
}

// config is the text of TF_CONFIG. It is no valid JSON until the kubelet has put
// the index in, so it is not made by a JSON encoder; names and addresses are DNS
// names, which need no escaping.
//
// An evaluator has a task and is no member of the cluster (tf.estimator,
// RunConfig: "evaluator is a special task"); TFJob lists it from 1.0 on, and users
// were hurt by both (kubeflow/trainer#1139).
func config(g gang.Gang) string {
	var jobs []string
	for _, m := range g.Members {
		if m.Role != roleEvaluator {
			jobs = append(jobs, fmt.Sprintf("%q:[%s]", m.Role, addresses(g, m)))
		}
	}
	return fmt.Sprintf(`{"cluster":{%s},"task":{"type":"%s","index":$(%s)},"environment":"cloud"}`,
		strings.Join(jobs, ","), g.Role, indexEnv)
}

func addresses(g gang.Gang, m gang.Member) string {
	var tasks strings.Builder
	after := fmt.Sprintf(".%s:%d\"", g.Subdomain(), g.Port)
	for i := range m.Size {
		if i > 0 {
			tasks.WriteByte(',')
		}
		tasks.WriteString(`"` + m.Workload + "-" + strconv.Itoa(int(i)) + after)
	}
	return tasks.String()
}
