package injectors

import (
	"fmt"

	"rollcall.training/gang"
	"rollcall.training/injectors/deepspeed"
	"rollcall.training/injectors/horovod"
	"rollcall.training/injectors/jax"
	"rollcall.training/injectors/lightgbm"
	"rollcall.training/injectors/mpi"
	"rollcall.training/injectors/paddle"
	"rollcall.training/injectors/pytorch"
	"rollcall.training/injectors/tensorflow"
	"rollcall.training/injectors/xgboost"
	"rollcall.training/plan"
)

// Injector knows one framework.
type Injector interface {
	// Framework declares the framework. It returns the same value on each call.
	Framework() gang.Framework
	// Plan says what the members of g need beyond what every gang gets. It is a
	// pure function of g.
	Plan(g gang.Gang) plan.Plan
}

// Registry is the set of injectors of a build, in the order shown to users.
type Registry []Injector

// Builtin returns the injectors that Rollcall ships.
func Builtin() Registry {
	return Registry{
		pytorch.Injector{},
		tensorflow.Injector{},
		mpi.Injector{},
		horovod.Injector{},
		jax.Injector{},
		xgboost.Injector{},
		lightgbm.Injector{},
		paddle.Injector{},
		deepspeed.Injector{},
	}
}

// Frameworks returns what the injectors declare, in their order.
func (r Registry) Frameworks() gang.Frameworks {
	out := make(gang.Frameworks, len(r))
	for i, inj := range r {
		out[i] = inj.Framework()
	}
	return out
}

// find returns the injector of a framework; the name comes from Frameworks.
func (r Registry) find(name string) (Injector, error) {
	for _, inj := range r {
		if inj.Framework().Name == name {
			return inj, nil
		}
	}
	return nil, fmt.Errorf("finding the injector of %q: not registered", name)
}
