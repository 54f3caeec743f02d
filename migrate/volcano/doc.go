// Package volcano reads Volcano's own Job, batch.volcano.sh/v1alpha1.
//
// # The idea
//
// Volcano's Job knows tasks, not frameworks. A plugin makes it one: pytorch,
// tensorflow and mpi are given the names of the tasks that play a part, and set the
// variables of their framework; svc and env give every pod the addresses of all
// others and its own index, from which the user's command makes what its framework
// wants. So a reader first has to find out which framework it is (framework.go),
// by the plugin, by what the user says, or by what the commands call; then each task
// becomes a role (tasks.go).
//
// What the plugins put into the pods is kept where the commands may refer to it
// (variables.go), with the addresses that the pods have now. What a policy says of
// an event becomes the gang's own restart and success policies, and a podFailurePolicy
// where the parts differ (policies.go, restarts.go, success.go). Volcano
// goes on placing the pods (schedule.go): it is told so by a PodGroup.
//
// What Volcano does with a field was read in its source, releases 1.0 to 1.15.
package volcano
