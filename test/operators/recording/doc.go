// Package recording records the objects that an operator creates for a manifest.
//
// # The idea
//
// A migrated PyTorchJob, MPIJob or TrainJob must give each rank the environment that the operator
// gave it. Only the code of the operator defines that environment. The programs next to this
// package run this code on objects in memory and store the created objects in a file next to the
// manifest: a recording. The tests of the migration read recordings and do not need the operator.
//
// A recording contains what a training program or a user can observe: pods with their containers
// and variables in order, Jobs, Services, ConfigMaps, and the keys of Secrets. It does not depend
// on time or randomness. So a recording that differs from its file is stale, and Main reports it.
//
// Each program is a Go module of its own, because the operators require incompatible versions of
// the Kubernetes libraries. This module requires the oldest of these versions, and each program
// raises them to the version of its operator.
package recording
