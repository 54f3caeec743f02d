// Package kubeflow reads the job kinds of Kubeflow's operators: PyTorchJob, TFJob,
// MPIJob, XGBoostJob, PaddleJob, JAXJob and MXJob, of training-operator, of
// mpi-operator, and of the operators for one framework that came before.
//
// # The idea
//
// All of them have one shape. A map of replica specs, one for each part of the
// framework, each with a number, a restart policy and a pod template; a run policy
// that says how the whole ends; and a few fields of the framework's own. The
// shape is read once, in replicas.go and runpolicy.go; a file for each kind holds
// what only that kind has, and the order of its ranks.
//
// What the operators do with a field was read in their source, and the versions
// are named where they differ; see [Read].
package kubeflow
