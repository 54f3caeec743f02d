// Package scheduling describes what a gang needs from each scheduler that places all of its ranks or none.
//
// # The idea
//
// Such a scheduler has an object that stands for a group of pods, the PodGroup, and a key by which a pod
// names its group. Only YuniKorn has applications instead, which need no object. Admission checks the workload
// ([Scheduler.Check]) and sets the key in the pod template ([Scheduler.PlanPods]), and the reconciler creates
// one PodGroup for the gang ([BuildPodGroup]). The key does not depend on other workloads, so admission needs no
// client. The PodGroup contains the number of ranks that must get a node together, so the reconciler creates it
// when all workloads of the gang exist. A scheduler does not place pods whose PodGroup does not exist, so the order
// does not matter.
//
// A scheduler is one file with a type that implements [Scheduler], and a row of the table schedulers. Package gang
// reads its name, and the keys of its own that users set. The PodGroups are maps instead of Go types, because their
// APIs are optional and some are alpha.
package scheduling
