// Package bench measures the overhead of the label: it compares labeled Jobs with the same Jobs
// without the label, on simulated nodes.
//
// # The idea
//
// Absolute figures of other machines are meaningless here, and the speed of one machine changes
// from minute to minute. So the benchmark alternates between both kinds of Jobs in one cluster, and
// reports the ratio of their medians. It measures three things in each run, starting with the first
// creation:
//
//   - The seconds until all pods are ready. No test asserts on them.
//   - The CPU seconds of each program until writes stop. They vary less than elapsed time if other
//     programs run on the machine, and they show which program used the time.
//   - The API server's audit log: who wrote what, and which writes were rejected. Each run has its
//     own namespace, so that late writes are attributed to the correct run. Unlike the API server's
//     counters, the log records the writer and excludes the leases of nodes, which are unrelated to
//     gangs.
//
// The tests assert what does not depend on time: every rank has its environment, every gang runs,
// and Rollcall needs the same number of writes for a gang of 8 ranks and for a gang of 256.
//
// A third variant consists of gangs that are made manually: plain Jobs to which the test adds the
// environment and the headless Service of Rollcall. The comparison with plain Jobs shows the cost
// of a gang. The comparison with manual gangs shows the cost of Rollcall.
//
// # Ranks with an offset
//
// TestRankOverhead measures in the same way the cost of assigning ranks of offset plus index to
// pods at creation. All implementations are installed together, each for the namespaces with its
// label. The test adds two measurements: the API server's counters of creation latency, admission
// latency and webhook calls; and sequential dry runs of one pod, which vary least if other programs
// run.
//
// # Limits of the ratio
//
// A simulated kubelet starts a pod immediately, and all programs of the control plane share the
// CPUs of this machine. So the seconds measure the work of the control plane only. The ratio is
// larger than any ratio that users observe, because real pods take seconds to start in either
// variant.
//
// # How to run it
//
//	make bench-cluster
//
// ROLLCALL_BENCH_OUT=<file> writes the result to the file as JSON. ROLLCALL_BENCH_ALL_VARIANTS=true
// adds manual gangs without the Service or with a Service that publishes only rank 0, which separates
// the cost of the environment from the cost of the Service, and the rejected implementations of ranks.
//
//	make bench-profile
//
// measures all of these variants with small loads.
//
//	make bench-peers
//
// adds the gangs of JobSet, Kubeflow Trainer and mpi-operator, and writes the table of docs/benchmarks.md.
// The operators run as processes next to Rollcall, from the modules in test/cluster/components. All of them
// run during all measurements and watch all pods, so they delay each other a little. The CPU time in the
// table excludes the operators that a variant does not need.
//
//	make bench-admission
//
// measures the webhook: its start, its memory, its throughput, and the latency of 200 calls per second on
// an idle cluster and on a busy cluster. ROLLCALL_BENCH_ADMISSION_DURATION is the duration of each of
// these measurements, 1m by default.
//
//	make bench-scale
//
// measures the life of one gang of up to 10,000 ranks, and the creation of 1,000 gangs of 10. A plain Job of
// the same size runs next to each gang, because 10,000 pods keep two cores busy for minutes.
package bench
