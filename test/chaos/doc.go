// Package chaos runs gangs through a random schedule of failures and checks invariants at the end of
// each life.
//
// # The idea
//
// A life is one gang from its creation to its deletion, with a list of incidents in between: pods are deleted or
// evicted, programs exit or hang, devices become unhealthy, preflight checks fail, nodes disappear. Real nodes
// are killed, cut from the network, stopped, drained and slow. Meanwhile, processes of Rollcall are killed and
// the API server restarts. A pure model predicts the outcome of each life from its incidents. The model knows
// the documentation, and nothing about the code of Rollcall. The seed determines all lives and all incidents. It
// does not determine the exact times, because real controllers run.
//
// # Invariants
//
//   - The final phase and the number of restarts are those of the model. Each incident that fails the
//     gang costs exactly one attempt, however many ranks it hits.
//   - Real nodes are shared. A fault of a node is an incident of one life. It can cost each other gang with a
//     pod on that node one more attempt, and no other gang. A slow node costs no attempt.
//   - The number of restarts never decreases and never increases by more than 1.
//   - Pods of two attempts never exist at the same time, except pods that have terminated, deleted pods that
//     were on a lost node, and pods on a node that does not respond for a minute. The pods of a StatefulSet
//     have no attempt. A rank of a StatefulSet never exists twice, because Kubernetes names the pod after the
//     rank.
//   - After the end, no pod runs. After the deletion of the workloads, no pod and no Service of the
//     gang remains.
//
// # How to run it
//
//	make chaos
//	SEED=42 make chaos
//	cd test && SEED=42 LIFE=17 go test -count=1 -v -run TestChaos ./chaos/...
//
// A failed life prints its seed and its number. SEED repeats all lives of a run, and LIFE only one.
// LIVES sets the number of lives on simulated nodes, REAL_LIVES the number on real nodes. Without
// LIVES, SEED or LIFE, only the model and the checks themselves are tested.
//
// # Limits
//
// A test cannot exit a program or a preflight check on a simulated node, so it reports the exit as a kubelet does,
// and also an unhealthy device. A simulated node is lost by deleting its Node, as a cloud provider does. Programs
// hang only on real nodes, where a kubelet runs the probe.
//
// Do not run other load next to real nodes. A controller that gets no CPU time for a second notices too late that all
// ranks of a Job were drained, and that Job completes (docs/tasks/configure-completion.md).
//
// The first real node runs the control plane and Rollcall, so it does not fail. While a fault ends the attempts of
// several gangs, no other incident happens, because nobody could predict which of them counts. For the same
// reason, no Job of a gang completes before the others on real nodes. A fault ends only after Rollcall has
// noticed it.
//
// kwok deletes pods by name. If it is slow, it can delete the new pod of a StatefulSet instead of the
// old one, which is a failure that the model does not know. The log of kwok then contains several
// deletions of the pod. For the same reason, only a few lives run at the same time.
package chaos
