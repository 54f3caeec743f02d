package injectors

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors/deepspeed"
	"rollcall.training/injectors/generic"
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

// Injector plans the injection for one framework. Implementations are stateless and safe for
// concurrent use.
type Injector interface {
	// Framework returns the declaration of the framework. Every call returns an equal value.
	Framework() gang.Framework
	// Plan returns the needs of a member of g that are specific to the framework. The needs of every
	// gang are not included. Plan is a pure function of g, and the caller owns the result.
	Plan(g gang.Gang) plan.Plan
}

// LauncherDiagnoser is an optional interface of an [Injector] with a launcher.
type LauncherDiagnoser interface {
	// Diagnose returns why a gang that succeeded did not use its workers, from the pod of its launcher that
	// succeeded; empty if there is no problem. complete is false while the pod has no report yet.
	Diagnose(g gang.Gang, launcher *corev1.Pod) (problem string, complete bool)
}

// Registry is the list of injectors of a build, in display order. The names of the frameworks are
// unique.
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
		generic.Injector{},
	}
}

// Frameworks returns the declarations of the injectors, in the order of the registry.
func (r Registry) Frameworks() gang.Frameworks {
	out := make(gang.Frameworks, len(r))
	for i, inj := range r {
		out[i] = inj.Framework()
	}
	return out
}

// findInjector returns the injector of the framework with the given name, or an error if it is not
// registered.
func (r Registry) findInjector(framework string) (Injector, error) {
	for _, inj := range r {
		if inj.Framework().Name == framework {
			return inj, nil
		}
	}
	return nil, fmt.Errorf("finding the injector of framework %q: not registered", framework)
}
