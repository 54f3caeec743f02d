// Package blueprint builds the workloads of a gang from a description of it that
// knows no system.
//
// # The idea
//
// PyTorchJob, MPIJob, TrainJob, JobSet and their kin say the same things in other
// words: how many pods of which template play which part, what ends them, under
// which names they meet. Whoever reads one of them writes a [Blueprint], and
// [Blueprint.Build] turns it into labelled Jobs and StatefulSets, the same way for
// all: one workload where the parts differ in nothing but their name, one for each
// part where they do; and for the names under which the pods were known, either
// the new name in the user's own command or a Service that keeps the old one.
package blueprint
