// Package kubeflow reads the job kinds of training-operator and mpi-operator: PyTorchJob, TFJob,
// MPIJob, XGBoostJob, PaddleJob and JAXJob.
//
// # The idea
//
// All kinds have the same shape. A map of replica specs has an entry for each role, with a number
// of pods, a restart policy and a pod template. A run policy defines when the job finishes and what
// is deleted afterward. Each kind adds a few fields of its own. The common fields are read once:
// replicas.go and run_policy.go. A function for each kind reads the rest (kind_fields.go). The roles,
// their order and the port of a framework come from its injector.
//
// The comments refer to the source of training-operator 1.9.3 and of mpi-operator 0.2 to 0.8.
// The oldest supported version is v1, which both operators and their predecessors had. Manifests of
// older versions are rejected (docs/adr/0017).
//
// Three rules decide about the result:
//
//   - A value that the operator overwrote had no effect. It is removed and reported as changed.
//   - A default of the operator that differs from Rollcall's is written into the result, for
//     example the number of slots.
//   - If the operator had a rule for each pod and Rollcall has a rule for the gang, as for
//     restarts, the rule of the gang applies and the field is reported as changed.
package kubeflow
