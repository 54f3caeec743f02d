// Package migrate converts training jobs of other systems to labeled Jobs and StatefulSets.
//
// # The idea
//
// Each manifest passes three stages. A reader, one package for each system, describes the job in
// terms that are independent of the system ([ir.Gang]) and records the outcome of each field
// ([source.Recorder]). The Gang builds workloads. The engine of the webhook checks the workloads,
// so that migrate never prints a workload that a cluster would reject.
//
//	document ─▶ reader ─▶ ir.Gang ─▶ workloads ─▶ engine ─▶ document
//	               └──────────── source.Recorder ────────────┴─────▶ report
//
// The file workloads.go makes gangs of the Jobs and StatefulSets that users wrote themselves: such a Job
// has the pods of a gang already, so all fields stay except for those that Rollcall sets. Readers ask the
// engine what it injects into a draft ([source.Context.Inject]), so that no rule about values exists twice.
//
// All other objects pass through unchanged. Migrate reports what the migration breaks in them, for
// example a selector by a label that the new pods do not have.
package migrate
