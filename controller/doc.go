// Package controller follows admitted gangs: it makes the objects that their
// workloads name, and says in which phase they are.
//
// # The idea
//
// A workload leaves admission complete but for what needs its UID: the headless
// Service through which its ranks find each other, and for some the Secret with the
// keys by which they trust each other. The [Reconciler] reads the workload with the
// same engine as the webhook, makes those with the workload as their owner, and from
// then on turns what the workload's own controller reports into the gang's phase.
//
// A gang of several workloads is looked at as one ([Request]), whichever of its members
// moved: its children are owned by all of them, and each of them tells the gang's
// phase. Admission saw each member alone; here they are heard together, and when they
// contradict each other, each is told who says what.
//
// One look leads to at most one write of each kind and member, and none when nothing
// moved, so what a gang costs the API server does not depend on its size. The phase
// goes into a label, an annotation and, on a Job, conditions by a single patch of the
// status subresource: it reaches metadata too, and unlike a patch of the workload it
// passes no admission webhook (docs/adr/0006).
//
// What is kept between two looks is little, in memory.go, and each look does without it.
//
// Each policy has a file of its own: children.go, keypair.go, resize.go, agreement.go,
// status.go, onehost.go; what a look finds in sight.go and stuck.go, what a gang does when a
// rank fails in enact.go and rewind.go, and what is taken away when it ends in clean.go. What
// is decided is in the package gang, life.go.
package controller
