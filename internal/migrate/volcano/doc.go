// Package volcano reads the Job of Volcano, batch.volcano.sh/v1alpha1.
//
// # The idea
//
// A Volcano Job has tasks, but no framework. Plugins add it: pytorch, tensorflow and mpi receive
// the names of the tasks that have a role, and set the variables of their framework. svc and env
// give every pod the addresses of all pods and its own index, from which the user's command computes
// the settings of its framework. The reader first determines the framework (job.go) by the
// plugin, by the user's choice or by the containers. Then each task becomes a role (tasks.go).
//
// The variables of the plugins stay available to the commands (plugins.go), with the addresses
// of the new pods. The policies for events become the restart and success policies of the gang
// (policies.go). Volcano can still schedule the pods, because the output contains a PodGroup.
//
// The comments refer to the source of Volcano 1.0 to 1.15.
package volcano
