// Package jobset reads JobSets, and what is run as one.
//
// # The idea
//
// A JobSet is a list of replicated jobs and a few policies about all of them. It names
// no framework and sets no variable: the rendezvous is in the user's own commands and
// variables, made of names such as js-workers-0-0.js. So the framework is told from
// those ([Set.Choose]), unless the user names it; the replicated jobs that take part
// become the roles of one gang; variables that Rollcall sets to the same meaning are
// left out, and names of pods are rewritten in all others.
//
// A replicated job that is no part of the gang, such as a driver, becomes plain Jobs
// beside it. One that the gang waits for to complete is a preparation. It becomes an
// init container where each pod of the gang can do it for itself: in a gang of one pod,
// or where what it writes to is the pod's own. Otherwise it becomes a Job that ends by
// leaving a mark on the volume which both have, and the pods of the gang wait for the
// mark (see prepare.go). Without a common volume nothing can make them wait, and that is
// reported as lost.
//
// A TrainJob is run as a JobSet, so package trainer fills in a [Set] too.
//
// What the controller does with a field was read in the source of JobSet v0.12.
package jobset
