// Package controller reconciles admitted gangs: it creates the objects that their workloads refer to,
// writes their phase, and restarts, completes and cleans them up.
//
// # The idea
//
// Admission completes a workload except for the objects that need its UID: the headless Service by
// which ranks find each other, and for some frameworks the Secret with SSH keys. The [Reconciler]
// parses the workload with the engine of the webhook and creates these objects with the workload as
// their owner. Then it observes workloads and pods and writes the phase of the gang.
//
// The members of a multi-workload gang are reconciled together ([Request]), whichever member changed.
// All members own the Service, which owns the Secret, and each member has the phase of the gang. Admission validates
// each member separately. The reconciler determines which workloads are the gang
// (docs/adr/0004-identity.md). If their settings conflict, it reports that on all of them and
// changes nothing else.
//
// A pass writes nothing if nothing changed. Otherwise the number of its writes depends on the
// members of the gang, and not on the ranks. One patch of the status subresource writes the phase
// to a label, an annotation and, on a Job, conditions. The subresource accepts metadata too, and no
// admission webhook intercepts the patch (docs/adr/0008-observability.md). If a phase
// requires a change of the spec, one patch of the spec writes the change, the label and the
// annotation. Such a patch cannot write conditions, so the next pass writes them.
//
// # The writes of a restart
//
// A restart makes these writes, in this order. Steps 1 and 2 are one pass, and each further step is
// a later pass:
//
//  1. Each member: the spec is suspended, and the phase becomes Restarting (actions.go, status.go).
//     The Event GangRestarting follows.
//  2. pods/status of one drained pod per Job, in the same pass and only if pods were deleted: the
//     pod is untracked, so that its Job cannot complete (job_status.go).
//  3. jobs/status of each Job that has the condition GangRunning: the condition becomes False.
//  4. jobs/status of each Job, when all pods have terminated and the back-off has elapsed, only if
//     the start time or completed indexes remain: both are cleared (job_status.go).
//  5. Each member: the spec is resumed, on a Job with the label of the attempt, and the phase
//     becomes Pending.
//  6. The status of each member, when all ranks are ready: the phase becomes Running, and on a Job
//     the condition GangRunning becomes True.
//
// A stuck pod makes the Service select only the next attempt, and so does each later restart of that gang. Each
// of them is one write of the Service (isolation.go).
//
// An earlier failure that is reported later, a stuck pod, a stall that is only reported, its end, and the phase
// Starting after five minutes each add one write per member. If a queue manages a Job, step 5 has two writes.
// Rollcall releases the Job to the queue with the phase Suspended, and it writes the phase Pending after the
// queue has resumed the Job.
//
// The reconciler keeps little between two passes, and each pass works without it: what it knows of a gang
// (session.go), the failures of nodes, the labels of nodes, and the clock of the API server.
//
// # Files
//
// Package lifecycle decides the next state, and what of the observed objects counts for it. The files of this package
// read the objects and apply the decision. doc_test.go compares this list with the folder.
//
// When a pass runs, and for which workloads:
//
//   - reconciler.go: watches, and the steps of a pass
//   - index.go: indexes of the cache, the gangs that an event affects, and the namespaces whose gangs are reconciled
//   - work_queue.go: the order in which waiting gangs are reconciled, and the delay of passes that events of pods cause
//   - workload_cache.go, service_cache.go: the fields of workloads and Services that the cache keeps, and Services that
//     it does not contain
//   - pod_cache.go: the fields of pods that the cache keeps, and their form
//   - server_clock.go: the time of the API server
//   - session.go: what the reconciler remembers between two passes
//   - members.go: a gang and its members, and the workloads among which they are searched
//
// What a pass reads:
//
//   - observe.go: the pods of a gang, and the members in the API server before a decision
//   - whole_workloads.go: members with the fields that the cache does not contain, within a bound of memory
//   - node_ledger.go: the nodes on which gangs failed first, over all gangs
//   - kueue.go: Workloads of Kueue: their watch and their content, and whether a queue resumes a workload
//   - membership.go: missing members, members with different settings, and workloads that are not members
//   - stalled_ranks.go: ranks that make no progress, and the log of rank 0
//   - launcher_hosts.go: whether a launcher reached its workers
//   - policy.go: violations of the policy of the cluster
//
// What a pass changes:
//
//   - actions.go: suspends, resumes, completes and fails members, and deletes the pods of a finished gang
//   - job_status.go: resets the status of a Job before the Job is resumed or suspended, and untracks a drained pod, so
//     that its Job does not complete
//   - resize.go: injects a StatefulSet again after it was scaled
//   - children.go, keypair.go: the Service and the Secret of a gang
//   - gang_queue.go: a gang of several workloads in a queue of Kueue
//   - pod_group.go: the PodGroup of a gang that its scheduler places as one
//   - host_order.go: the ConfigMap with the order of a launcher's hosts, by the labels of their nodes
//   - isolation.go: the attempt that the Service selects after a node was lost
//   - rejections.go: reports requests that the API server rejects
//   - status.go, stuck_pods.go: phase, annotations and conditions, and the report of a pod whose termination is overdue
//   - policy_report.go: reports of violations of the policy
//   - events.go, metrics.go: Events, also about ranks that wait for their nodes, and metrics
package controller
