// Package controller follows admitted gangs: it makes the objects that their
// workloads name, and says in which phase they are.
//
// # The idea
//
// A workload leaves admission complete but for what needs its UID: the headless
// Service through which its ranks find each other. The [Reconciler] reads the
// workload with the same engine as the webhook, makes that Service with the
// workload as its owner, and from then on turns what the workload's own
// controller reports into the gang's phase.
//
// One look leads to at most one write of each kind, and none when nothing moved,
// so what a gang costs the API server does not depend on its size. The phase goes
// into a label, an annotation and, on a Job, conditions by a single patch of the
// status subresource: it reaches metadata too, and unlike a patch of the workload
// it passes no admission webhook (docs/adr/0006).
//
// Each policy has a file of its own: children.go, resize.go, status.go. What a gang does
// when a rank fails, and what is taken away when it ends, will stand beside them.
package controller
