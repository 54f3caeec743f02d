package pytorch

import (
	"rollcall.training/gang"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default of PyTorchJob (training-operator, DefaultPort in
// pkg/apis/kubeflow.org/v1/pytorch_types.go).
const defaultPort = 23456

// Injector is the injector for PyTorch. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of PyTorch.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "pytorch",
		Roles: []gang.Role{
			{Name: "master", MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker"},
		},
		DefaultRole: "worker", Port: defaultPort, PortName: "pytorch", ElasticRole: "worker",
		NeedsOnlyRank0: true, HasTorchrunVars: true, HasEqualRoles: true,
		ShortName: "torch",
		Launchers: launchers,
		Signature: gang.Signature{
			Variables: `PET_[A-Z_]+`, Words: `torchrun|torch\.distributed|pytorch`, SharedVariables: `MASTER_ADDR|MASTER_PORT`,
		},
	}
}

// Plan returns both families of rendezvous variables, and the ranks for launchers without flags.
func (Injector) Plan(g gang.Gang) plan.Plan {
	return plan.Plan{Env: append(rendezvous.TorchEnv(g), rendezvous.LocalRankEnv(g)...)}
}
