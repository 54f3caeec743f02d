// Package trainer reads TrainJobs of Kubeflow Trainer 2.0 to 2.3.
//
// # The idea
//
// A TrainJob names a runtime, a command and some numbers. The runtime contains the rest: a JobSet
// with extensions. The reader combines both as Trainer does, and package jobset converts the
// resulting JobSet.
//
// The reader looks for the runtime in the input, then in the files that the user named, and then
// among the runtimes that Trainer installs. The folder runtimes contains those of v2.3.0. Paths of
// fields of the runtime start with its kind and name in the reports of all TrainJobs that use it.
//
//   - Policy torch becomes pytorch. Policy mpi becomes mpi, or deepspeed or horovod if the runtime's
//     label trainer.kubeflow.org/framework or the launcher's command names them, because their
//     launchers need further hostfiles. Policies jax and xgboost keep their names. Policy flux has
//     no equivalent.
//   - A runtime without a policy sets no variables. Unless the user names a framework, its pods
//     become a generic gang.
//   - Initializers become plain Jobs; see package jobset.
//   - Overrides have three names in three releases: podSpecOverrides, podTemplateOverrides and
//     runtimePatches. All are applied by strategic merge, as in Trainer.
//
// The behavior of Trainer is that of pkg/runtime and pkg/runtime/framework/plugins.
package trainer
