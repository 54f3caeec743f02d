// Package simulation runs the real reconciler and the real admission code through random sequences of events,
// in one process, with a virtual clock, and checks properties that no sequence may violate.
//
// # The idea
//
// A bug in the lifecycle of a gang needs several ordinary events in an unlucky order: a preemption while a
// watch is late, a drain during a failover, a deletion between two writes. Tests of examples prove what their
// authors thought of. A simulation finds the sequences that nobody thought of: it runs thousands of them each
// minute, and a seed repeats each of them exactly.
//
// The reconciler and the webhook are those of the product. Around them are stand-ins for the API server
// (api.go), the Job controller (job_controller.go, job_sync.go, job_status.go), the StatefulSet controller,
// kubelets and nodes (node.go), the scheduler (scheduler.go), the training programs (programs.go), Kueue (queue.go),
// the time to live and the garbage collector. Package traces compares them with a real cluster.
//
// # What can go wrong
//
// Each watch, each controller and each kind of request has a stream of random delays of its own (world.go).
// Requests of Rollcall fail, before or after the API server has handled them (manager.go). Between any two
// requests of a pass, everything else continues, a manager can crash, and two managers can lead. Requests of the
// controllers of Kubernetes fail, too, and kube-controller-manager restarts between any two of them. Incidents
// (incidents.go, disruptions.go, strangers.go) are what users, nodes, queues and programs do. Random scenarios
// (random.go, random_limits.go) combine them.
//
// # Properties
//
// The oracle (oracle.go, success.go, liveness.go, seconds.go, names.go, strangers.go) knows what really happened and
// what the documentation says. It knows nothing about the code of Rollcall. The constants of type property are the
// complete list.
//
// # How to run it
//
//	make simulate
//	make simulate TIME=1h
//	make simulate SEED=42
//
// sequences_cases_test.go, found_cases_test.go, reviewed_cases_test.go, resumed_cases_test.go,
// interrupted_cases_test.go, avoided_cases_test.go and limits_cases_test.go contain sequences with an expected end.
// Most fixed defects have one, others a unit test or an integration test. make mutants plants defects
// (mutants_cases_test.go, former_builds_cases_test.go) and checks that the scenarios find them.
//
// A violation is shrunk: incidents, clock differences, faults and late streams that it does not need are removed. The
// result is printed as a table. The seed repeats it.
//
// # Limits
//
// The stand-ins follow Kubernetes 1.37. Kubelets, Kueue and races between two writers are not compared with a cluster.
// The real Job controller can count a pod twice that is gone while its cache is late. The stand-in does not.
// No scenario has a policy, a preflight check, a liveness probe, several Jobs in a queue, an elastic Job, or three
// members. Users delete in the background only, and finalizers are on pods only.
// The oracle excuses what Rollcall cannot prevent: pods that a user or a queue starts next to those of an earlier
// attempt, results that disappear before a running manager has observed them, peers that fail before Kubernetes
// reports a lost node or a kubelet reports that it terminates a rank, failures next to a deadline of the Job, and
// ranks that exit with code 0 on SIGTERM before anybody observes it (docs/tasks/configure-completion.md). About one
// of eleven scenarios has a manager that observes everything in time (Scenario.ObservesDrains), and no such excuse.
// The oracle also excuses disruptions that leave no trace: a StatefulSet, or a Job that ignores disruptions,
// replaces a pod before all ranks were ready, a StatefulSet replaces a pod next to an ended pod that a finalizer
// keeps, and a member is deleted while no other member has a status. A pod that is deleted while no manager runs can
// seem to be a failure if its peers are on a lost node (isUnobservedNextToLostNode), if no manager has run since the
// gang was suspended (isUnobservedSinceSuspension), or if the clock of a node is behind. With such a clock, so can a
// pod that is deleted without a reason while the manager is late. If a cache of the pods is late, a rank that succeeds
// before all ranks of a later attempt were ready seems to be lost. A suspension that no manager recorded can seem to
// be a disruption. A workload that comes before all members know that the gang has failed conflicts with those that do
// not, and one that exists when the user starts the gang again is a member of the next run. With OnDelete, ranks run
// on until their user deletes them.
//
// The status of a container contains only its last exits. So a rank that succeeds in a second run hides its failure if
// the manager changes. In gangs with a StatefulSet, programs fail in a second run only if the manager and the kubelets
// are never late.
package simulation
