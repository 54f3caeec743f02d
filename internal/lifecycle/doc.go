// Package lifecycle determines the phase of a gang and decides when it restarts.
//
// # The idea
//
// The reconciler observes a gang and condenses the result into a [Snapshot]. The method [State.Next]
// takes the last [State] and the snapshot and returns the next state: the phase, the number of
// restarts, and the time before which no new attempt may start. Next is a pure function without clock
// and client. Nothing else in the repository decides whether a gang restarts.
//
// # Which workloads are the gang
//
// Names are reused, so several workloads can have the name of a gang. [Identify] determines its
// members before anything is decided, by the UIDs in the status.
//
// # When a gang restarts or fails
//
// The conditions of the workloads determine whether the gang succeeded, or failed by the rules of a
// Job ([Members.Phase]). While they do not, these are failures of the gang, in this order (restart.go):
//
//  1. a failure of a pod, see [rollcall.training/internal/failure.First]
//  2. a failed pod that a Job counts and that was not observed
//  3. a rank that its Job counts as completed, that has no pod, and that is not known to have completed
//  4. a pod that a StatefulSet replaced
//  5. a member that was deleted and recreated after all ranks were ready
//  6. the end of the start timeout
//
// An attempt that did not start with all ranks starts again for the same incident, and uses up nothing: a rank was
// lost before all ranks of a later attempt were ready, or a Job with a completed rank was suspended and resumed while
// no pass observed it.
//
// Package controller selects the pods and the context of the first rule (observe.go): pods of earlier
// attempts, of a rollout, and of a gang that is suspended or has finished do not count. After a
// failure, the gang restarts, unless its policies or a complete Job prevent it. Then it fails.
//
// Failures and disruptions have counts and limits of their own, and attempts are numbered apart from
// both. See docs/adr/0050-attempts-and-disruptions.md.
//
// The state is stored in the annotation rollcall.training/status on each member, together with the
// reason and the message for users. See [Status]. A manager that starts, or takes over from another
// manager, continues from there.
package lifecycle
