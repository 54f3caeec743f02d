// Package roster reads from a cluster how a gang stands, rank by rank, and draws it
// for a terminal.
//
// # The idea
//
// What Rollcall knows of a gang is on its workloads: the phase as a label, and the
// rest as the annotation gang.AnnotationStatus. What each rank does is on its pod. A
// [Reader] puts the two together into a [Gang], plain data, with nothing but the rights
// that a user has who may look at the namespace. It asks no server of ours, so it
// tells the truth also where Rollcall is not running.
//
// A rank is in one of six states ([State]). A thousand ranks have to fit a screen, so
// they are drawn as cells, one character each, and what is alike is said once: equal
// rows of cells, and equal reasons, are drawn as ranges of ranks.
//
// Reading needs a client; drawing is pure: a Gang and a [Style] in, text out.
package roster
