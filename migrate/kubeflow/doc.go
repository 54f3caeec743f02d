// Package kubeflow reads the job kinds of Kubeflow's operators: PyTorchJob, TFJob,
// MPIJob, XGBoostJob, PaddleJob, JAXJob and MXJob, of training-operator, of
// mpi-operator, and of the operators for one framework that came before.
//
// # The idea
//
// All of them have one shape. A map of replica specs, one for each part of the
// framework, each with a number, a restart policy and a pod template; a run policy
// that says how the whole ends; and a few fields of the framework's own. The
// shape is read once: replicas.go, containers.go, restart.go and runpolicy.go. A file
// for each kind holds what only that kind has, and the order of its ranks. Older
// versions have the same shape with fewer levels; alpha.go and mpi_alpha.go read the
// first, which had another.
//
// What the operators do with a field was read in their source: training-operator 1.9.3,
// mpi-operator 0.2 to 0.8, tf-operator and pytorch-operator up to their archives. The
// versions are named where they differ.
//
// Three outcomes need judgement. What the operator overwrote had no effect, so it is left
// out and said to have changed. What the operator's defaults did is written down where
// Rollcall's would do otherwise, such as the number of slots. And where operators had a
// rule for each pod and Rollcall has one for the gang, as with restarts, the gang's is
// taken and said to be another.
package kubeflow
