// Package kueue describes the Workload of Kueue for a gang of several workloads.
//
// # The idea
//
// Kueue creates a Workload for each Job, admits each of them separately, and has no means to admit several Jobs as
// one. Any controller can create Workloads, however: Kueue admits them, reserves quota and evicts them like its own
// (kueue.sigs.k8s.io, "Building an external integration"). Such a controller has the part of Kueue's reconciler of
// Jobs (kueue pkg/controller/jobframework/reconciler.go): it starts and stops the workloads, gives the quota back
// when they have no pods, and reports the end. This package contains what it reads ([Read]) and writes ([Build],
// [Release], [Finish]) as pure functions.
//
// Workloads are maps instead of Go types, because the API is optional.
package kueue
