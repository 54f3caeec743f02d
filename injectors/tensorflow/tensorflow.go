package tensorflow

import (
	"fmt"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default of TFJob (training-operator, TFJobDefaultPort in
// pkg/apis/kubeflow.org/v1/tensorflow_types.go).
const defaultPort = 2222

// indexEnv is the variable with the index of the task. The value of TF_CONFIG refers to it.
const indexEnv = "TF_TASK_INDEX"

// roleEvaluator is the role that evaluates checkpoints and does not take part in the training.
const roleEvaluator = "evaluator"

// Injector is the injector for TensorFlow. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of TensorFlow.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "tensorflow",
		Roles: []gang.Role{
			// The name of the chief in TensorFlow 1.
			{Name: "master", MaxPods: 1, Excludes: []string{"chief"}, DeterminesCompletion: true},
			{Name: "chief", MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker"},
			{Name: "ps", Requires: []string{"worker"}, LongRunning: true},
			{Name: roleEvaluator, Requires: []string{"worker"}, LongRunning: true},
		},
		DefaultRole:            "worker",
		FirstPodCompletionRole: "worker",
		Port:                   defaultPort,
		PortName:               "tensorflow",
		ShortName:              "tf",
		Signature:              gang.Signature{Variables: `TF_CONFIG`, Words: `tensorflow`},
	}
}

// Plan returns TF_CONFIG, unless the gang has only one pod.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := []plan.Env{rendezvous.UnbufferedEnv()}
	if g.Size > 1 {
		env = append(env,
			plan.FieldEnv(indexEnv, plan.PodLabelFieldPath(g.IndexLabel)).WithMeaning(plan.Rank),
			plan.LiteralEnv("TF_CONFIG", formatTFConfig(g)))
	}
	return plan.Plan{Env: env}
}

// formatTFConfig returns the value of TF_CONFIG. The value is valid JSON only after the kubelet has
// expanded the index, so a JSON encoder cannot produce it. Names and addresses are DNS names, which
// need no escaping.
//
// An evaluator has a task, but is not part of the cluster (tf.estimator, RunConfig: "evaluator is a
// special task"). TFJob includes the evaluator in the cluster since 1.0. Both ways caused problems for
// users (kubeflow/trainer#1139).
func formatTFConfig(g gang.Gang) string {
	var config strings.Builder
	config.WriteString(`{"cluster":{`)
	separator := ""
	for _, m := range g.Members {
		if m.Role != roleEvaluator {
			fmt.Fprintf(&config, "%s%q:[", separator, m.Role)
			writeAddresses(&config, g, m)
			config.WriteByte(']')
			separator = ","
		}
	}
	fmt.Fprintf(&config, `},"task":{"type":"%s","index":$(%s)},"environment":"cloud"}`, g.Role, indexEnv)
	return config.String()
}

// writeAddresses writes the quoted addresses of the pods of a member, separated by commas. A gang can
// have so many pods that the text is too long for a variable, so the function makes no copies.
func writeAddresses(out *strings.Builder, g gang.Gang, m gang.Member) {
	prefix, suffix := `"`+m.WorkloadName+"-", fmt.Sprintf(".%s:%d\"", g.ServiceFQDN(), g.Port)
	const maxIndexLength = len("99999,")
	out.Grow(int(m.Size) * (len(prefix) + maxIndexLength + len(suffix)))
	for i := range m.Size {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(prefix)
		out.WriteString(strconv.Itoa(int(i)))
		out.WriteString(suffix)
	}
}
