package otherlauncher

import (
	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/mpi"
)

// Name is the name of the framework, and Program that of its launcher.
const (
	Name    = "ringmaster"
	Program = "ringrun"
)

// Injector is the injector of mpi with another declaration.
type Injector struct{ mpi.Injector }

// Framework returns the declaration of mpi with another name, launcher and signature.
func (i Injector) Framework() gang.Framework {
	f := i.Injector.Framework()
	launcher := f.Launchers[0]
	launcher.Name, launcher.Programs = Program, []string{Program}
	f.Name, f.Launchers, f.Signature = Name, []gang.LauncherProgram{launcher}, gang.Signature{Variables: `RINGMASTER_\w+`}
	return f
}

// NewEngine returns an engine with the framework in addition to the built-in ones.
func NewEngine() *injectors.Engine {
	return injectors.NewEngine(append(injectors.Builtin(), Injector{}), gang.Config{})
}
