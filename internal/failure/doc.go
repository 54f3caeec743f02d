// Package failure finds out which rank of a gang failed first, and why.
//
// # The idea
//
// If one rank of a gang fails, its peers fail as well: they lose a connection and exit with an
// error of their own. All failures of one attempt are therefore one incident, and the gang's
// status names the earliest of them, the first failure. [First] inspects the pods of a member
// and returns its earliest [Failure], and [EarlierOf] orders two of them.
//
// Kubernetes keeps times to the second, and most peers fail within the same second. The order
// therefore uses more than the time: an external cause (an eviction, a deletion, an OOM kill)
// comes before an exit code, and a rank whose termination message reports a lost peer comes after a
// rank without that report. docs/adr/0007-first-failure.md has the evidence.
//
// When Rollcall terminates a gang, its containers exit with errors too. The package therefore
// compares each exit with the time at which the termination was decided, and marks exits that may
// be a consequence ([Failure.MaybeTerminated]).
//
// The package is pure. The reconciler, the state machine in package lifecycle and the command line
// use the same order.
package failure
