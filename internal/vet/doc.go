// Package vet checks labeled workloads for errors and bad practices before they are applied.
//
// # The idea
//
// The webhook sees one workload at a time and rejects only workloads that cannot work. A person
// who reads the complete manifest finds more mistakes. Examples are a gang that restarts without a
// volume for checkpoints, torchrun flags that conflict with injected variables, and a member with
// a different size than the other members. Package vet automates that review. [Run] passes the
// documents of one input to each [Check] of [Checks] and returns a [Report] of their findings.
//
// A check can read a workload as written, the workload as the webhook would admit it, the parsed
// gang, and the other objects of the input. A check reports only certain mistakes. It reports
// nothing if a program could still handle the situation correctly. The package has no access to a
// cluster, so no check depends on existing objects.
//
// Each check has a [Code]. People search for codes and programs filter by them, so a code is never
// renamed and never reused for a different check.
//
// # Severity
//
// The webhook or the API server rejects a workload with an [Error], or the workload cannot work.
// A workload with a [Warning] most likely does not do what its author intends. A workload with an
// [Info] works, but has an avoidable cost or risk.
package vet
