// Package trainer reads Kubeflow Trainer's TrainJobs, of the releases 2.0 to 2.3.
//
// # The idea
//
// A TrainJob is little by itself: it names a runtime, and fills in a command and some
// numbers. The runtime holds the rest, a JobSet and what the trainer adds to it. So the
// two are brought together as the trainer does it, and what comes out is read as a
// JobSet, by package jobset.
//
// The runtime is looked for in the input, in the files that were named for the purpose,
// and last among those that Trainer installs itself, which stand in the folder runtimes
// as of v2.3.0. Its fields are accounted for in the report of each TrainJob that is made
// of it, under paths that begin with its kind and name.
//
//   - Policy torch becomes pytorch; mpi becomes mpi, or deepspeed or horovod where the
//     runtime's label trainer.kubeflow.org/framework or the launcher's command says so,
//     since a launcher of either finds its hosts at more places; jax and xgboost become
//     themselves. flux has no counterpart.
//   - A runtime without a policy sets no variable, and a framework's label would. Unless
//     the user names a framework, its pods become a plain Indexed Job with a Service for
//     their names, which is what they had: Rollcall neither sees it nor restarts it.
//   - The Jobs of the initializers are preparations, of which package jobset tells.
//   - Overrides had three names in three releases: podSpecOverrides, podTemplateOverrides
//     and runtimePatches. All are applied as the trainer did, by strategic merge.
//
// What the trainer does with a field was read in its source, pkg/runtime and
// pkg/runtime/framework/plugins.
package trainer
