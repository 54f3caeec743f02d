// Package injectors is the injection engine. It turns a labeled workload into a member of a gang. The
// webhook, the command line and the reconciler share the engine, so all of them give the same result.
//
// # The idea
//
// Each framework is one folder below this package. The folder declares the framework as a
// gang.Framework, and plans the needs of a member of a gang (see [Injector]). The result is a
// plan.Plan, which is data. The engine adds the needs of every gang (see [Engine]), and internal/injection
// applies the merged plan.
//
// The folder of a framework states the facts by which gangs of the framework are injected. Other packages
// query the [Registry]: [Registry.Frameworks] returns the roles, launchers and ports, and
// [Registry.Variables] the injected variables. Checks of programs (vet, migrate) and the agent also know the flags,
// files and messages of launchers, as vet explains mistakes that an injector never sees.
//
// A new framework needs a folder and a line in [Builtin]. CONTRIBUTING.md lists the steps, and package
// conformance contains the test suite that every injector must pass.
//
// The engine has no client, clock, logger or state. The same object gives the same result on every
// replica, in a dry run, and offline.
package injectors
