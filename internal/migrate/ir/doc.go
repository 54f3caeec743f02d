// Package ir is the intermediate representation of a migration: a gang without the terms of the
// system that it comes from.
//
// # The idea
//
// PyTorchJob, MPIJob, TrainJob, JobSet and similar kinds describe the same facts in different
// words: the number of pods of each role, their template, when the job is complete, and the names
// under which pods find each other. A reader turns a manifest into a [Gang], and [Gang.Build] turns
// every Gang into labeled Jobs and StatefulSets in the same way. Roles with equal templates share
// one workload. Former host names are replaced by the new ones.
//
// Package ir also has what the readers share: the roles that names suggest (frameworks.go), the former
// hostnames (host_names.go), the engine's view of a draft (containers.go), the commands of
// a launcher and its workers (frameworks.go), and the request to a gang scheduler (gang.go). The former
// systems created a PodGroup for each running job. Both supported schedulers accept pods of any owner, so
// a PodGroup can be written when the gang is migrated.
//
// Selectors with labels of the former system stay, and the migration reports them.
package ir
