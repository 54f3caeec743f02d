// Package injectors is the engine: it turns a labelled workload into a gang's
// member, the same way for the webhook, the command line and the reconciler.
//
// # The idea
//
// Each framework is one folder below this one. It declares what it is, as a
// gang.Framework, and answers one question: what does a member of this gang need
// (see [Injector])? The answer is a plan.Plan, data. What every gang needs,
// whatever its framework, is planned here (see [Engine]). The applier of package
// plan does the rest.
//
// Adding a framework means one folder and one line in [Builtin]; CONTRIBUTING.md
// has the steps, and package conformance the suite that each one passes.
//
// The engine has no client, no clock, no logger and no memory. The same object
// gives the same result on every replica, in dry-run, and offline.
package injectors
