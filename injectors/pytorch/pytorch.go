package pytorch

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// Port is PyTorchJob's default (training-operator, DefaultPort of
// pkg/apis/kubeflow.org/v1/pytorch_types.go).
const Port = 23456

// Injector is the pytorch injector; its zero value is ready.
type Injector struct{}

// Framework declares pytorch.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "pytorch",
		Roles: []gang.Role{
			{Name: "master", Max: 1, Decides: true},
			{Name: "worker"},
		},
		Role: "worker", Port: Port, PortName: "pytorch", Elastic: "worker",
	}
}

// Plan gives every rank both families of rendezvous variables.
func (Injector) Plan(g gang.Gang) plan.Plan {
	return plan.Plan{Env: rendezvous.Torch(g)}
}
