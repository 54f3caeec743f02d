// Package lifecycle determines the phase of a gang and decides when it restarts.
//
// # The idea
//
// One pass of the reconciler reads workloads and pods into [Evidence]. [State.Observe] selects what counts, and
// condenses it into a [Snapshot]. [State.Next] takes the last [State] and the snapshot and returns the next state: the
// phase, the counts of restarts, the attempt, and the time before which the next attempt must not start. [Memory]
// delays decisions that a stale cache can cause ([Memory.Confirm]). All of them are functions without clock and client.
// Nothing else in the repository decides whether a gang restarts or fails. The reconciler only withholds a decision: if
// the members have changed when it reads them again, conflict, or wait for a queue.
//
// # Which workloads are the gang
//
// Names are reused, so several workloads can have the name of a gang. Package roster determines its members
// before anything is decided, by the UIDs in the status.
//
// # When a gang restarts or fails
//
// The conditions of the workloads determine whether the gang succeeded, or failed by the rules of a
// Job ([Members.Phase]). While they do not, these are failures of the gang, in this order (restart.go):
//
//  1. a disruption of a pod, see [failure.Failure.IsDisruption], or an eviction because of the pod itself
//  2. a failed pod that a Job counts and that was not observed ([failure.ReasonUnobserved])
//  3. a rank that has no pod, that is not known to have completed, and for which its Job creates no pod because the
//     Job counts that rank, or another that runs again, as completed; also a rank that runs again, after all ranks
//     were ready, although its Job counts it as completed ([failure.ReasonRankLost])
//  4. a pod of a StatefulSet that was replaced, or that is gone after its peers failed ([failure.ReasonPodDeleted])
//  5. a member that was deleted and recreated after all ranks were ready ([failure.ReasonMemberRecreated])
//  6. a failure of a pod after a member was deleted ([failure.ReasonMemberDeleted])
//  7. any other failure of a pod, see [failure.First]
//  8. a rank 0 that printed no line of progress for the stall timeout ([failure.ReasonStalled])
//  9. the end of the start timeout ([failure.ReasonStartTimeout])
//  10. nodes that were held for the schedule timeout, while other ranks had none ([failure.ReasonScheduleTimeout])
//
// A gang that is suspended or that is about to finish has no failures. If some of its members ran on meanwhile, it
// restarts when all are resumed ([failure.ReasonMemberSuspended]).
//
// An attempt that did not start with all ranks starts again for the same incident, and uses up nothing: a rank was
// lost before all ranks of a later attempt were ready, or a Job with a completed rank was suspended and resumed while
// no pass observed it. Further repetitions have the back-off of disruptions.
//
// Pods of earlier attempts, and those that a rollout or a resize replaces, do not count (evidence.go). After a failure,
// the gang restarts, unless its policies or a complete Job prevent it. Then it fails.
//
// Failures and disruptions have counts and limits of their own, and attempts are numbered apart from
// both. See docs/adr/0005-restarts.md.
//
// The state is stored in the annotation rollcall.training/status on each member, together with the
// reason and the message for users. See [Status]. A manager that starts, or takes over from another
// manager, continues from there.
package lifecycle
