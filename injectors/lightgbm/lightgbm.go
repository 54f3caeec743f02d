package lightgbm

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is XGBoostJob's default (training-operator, DefaultPort of
// pkg/apis/kubeflow.org/v1/xgboost_types.go).
const Port = 9999

// Injector is the lightgbm injector; its zero value is ready.
type Injector struct{}

// Framework declares lightgbm.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "lightgbm",
		Roles: []gang.Role{
			{Name: "master", Max: 1, Decides: true},
			{Name: "worker"},
		},
		Role: "worker", Port: Port, PortName: "lightgbm",
	}
}

// Plan tells every rank where all of them are.
func (Injector) Plan(g gang.Gang) plan.Plan {
	return plan.Plan{Env: rendezvous.Boosting(g)}
}
