// Package bench measures what the label costs: labelled Jobs beside the same Jobs without it, on simulated nodes.
//
// # The idea
//
// No figure of another machine says anything here, and the same machine is not as fast now as it was a minute ago. So
// both kinds of Jobs are run by turns in one cluster, and what is told is the ratio of their medians. Three things are
// measured of each run, from the first creation on:
//
//   - Seconds until all pods are ready. Nobody asserts on them.
//   - CPU seconds of each program until nothing is written any more. They move less than the clock's when something else
//     runs on the machine, and say which program the time went to.
//   - The API server's audit log: who wrote what, and what was refused. Each run has a namespace of its own, so that a
//     write belongs to a run whenever it comes. Unlike the API server's counters, the log knows writers, and leaves out
//     the nodes' leases, which have nothing to do with gangs.
//
// What holds whatever the time is asserted: every rank has its environment, every gang runs, and Rollcall writes the
// same few times for a gang of 8 ranks as for one of 256.
//
// Between the two stand the same gangs made by hand: plain Jobs to which the test adds what Rollcall would, environment
// and headless Service. Beside plain Jobs, one sees what it costs to be a gang; beside these, what Rollcall costs.
//
// # Ranks that are sums
//
// TestRanks measures by the same means what it costs that each pod of a gang's later workloads gets a rank of offset plus
// index when it is created. All ways to do that are in force at once, each in the namespaces that bear its name. Two things
// are added: the API server's own counters, which say how long a creation took and where, and whom it asked; and one pod
// after another by dry run, which moves least when something else runs.
//
// # What the ratio is not
//
// A simulated kubelet starts a pod in no time, and all programs of the control plane share this machine's processors.
// So the seconds are those of the control plane's own work, and the ratio is larger than any that a user sees, whose
// pods take seconds to start however they were made.
//
// # How to run it
//
//	make bench-cluster
//
// ROLLCALL_BENCH_OUT=<file> writes the result there, as JSON. ROLLCALL_BENCH_PARTS=true also runs the gangs made by hand
// without their Service, which tells apart the two things that are added; and ranks in the ways that were not chosen.
package bench
