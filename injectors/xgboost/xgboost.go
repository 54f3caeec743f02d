package xgboost

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is XGBoostJob's default (training-operator, DefaultPort of
// pkg/apis/kubeflow.org/v1/xgboost_types.go).
const Port = 9999

// Injector is the xgboost injector; its zero value is ready.
type Injector struct{}

// Framework declares xgboost.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "xgboost",
		Roles: []gang.Role{
			{Name: "master", Max: 1, Decides: true},
			{Name: "worker"},
		},
		Role: "worker", Port: Port, PortName: "xgboost",
	}
}

// Plan tells every rank where all of them are.
func (Injector) Plan(g gang.Gang) plan.Plan {
	return plan.Plan{Env: rendezvous.Boosting(g)}
}
