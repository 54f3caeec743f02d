// Package migrate turns the training jobs of other systems into labelled Jobs and
// StatefulSets.
//
// # The idea
//
// A manifest goes through three hands. A reader, one package for each system, says
// what the object means in terms that no system owns ([blueprint.Blueprint]), and
// accounts for each field as it goes ([ledger.Ledger]). The blueprint builds
// workloads. And the engine of the webhook looks at them before anybody else does,
// so that nothing is given out that a cluster would refuse.
//
//	document ─▶ reader ─▶ blueprint ─▶ workloads ─▶ engine ─▶ document
//	               └──────────── ledger ──────────────┴─────▶ report
//
// What is no training job passes through as it is. It is looked at for what the
// migration of others breaks in it, such as a selector of pods by a label that they do
// not have any more, and reported then.
package migrate
