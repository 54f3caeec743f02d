package xgboost

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default of XGBoostJob (training-operator, DefaultPort in
// pkg/apis/kubeflow.org/v1/xgboost_types.go).
const defaultPort = 9999

// Injector is the injector for XGBoost. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of XGBoost.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "xgboost",
		Roles: []gang.Role{
			{Name: "master", MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker"},
		},
		DefaultRole: "worker", Port: defaultPort, PortName: "xgboost",
		HasEqualRoles: true, Signature: gang.Signature{Variables: `DMLC_[A-Z_]+`, Words: `xgboost`},
	}
}

// Plan returns the address of the tracker on rank 0, which connects the workers. The addresses of the other
// ranks are variables of training-operator, whose length grows with the gang.
func (Injector) Plan(g gang.Gang) plan.Plan {
	env := rendezvous.GradientBoostingEnv(g)
	if g.HasKubeflowNames {
		env = append(env, rendezvous.WorkerEnv(g)...)
	}
	return plan.Plan{Env: env}
}
