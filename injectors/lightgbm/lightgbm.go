package lightgbm

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default of XGBoostJob (training-operator, DefaultPort in
// pkg/apis/kubeflow.org/v1/xgboost_types.go).
const defaultPort = 9999

// Injector is the injector for LightGBM. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of LightGBM.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "lightgbm",
		Roles: []gang.Role{
			{Name: "master", MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker"},
		},
		DefaultRole: "worker", Port: defaultPort, PortName: "lightgbm",
		HasEqualRoles: true, Signature: gang.Signature{Words: `lightgbm`},
	}
}

// Plan returns the addresses of all ranks, from which programs build the parameter machines.
func (Injector) Plan(g gang.Gang) plan.Plan {
	return plan.Plan{Env: append(rendezvous.GradientBoostingEnv(g), rendezvous.WorkerEnv(g)...)}
}
