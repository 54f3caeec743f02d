// Package inspect reads gangs from a cluster, rank by rank, and prints them to a terminal.
//
// # The idea
//
// The workloads of a gang hold everything that Rollcall reports about it: the phase as a label, and
// the rest as the annotation gang.AnnotationStatus. The pods hold the state of each rank. A [Reader]
// combines both into a [Gang], which is plain data. A Reader needs only the permission to list
// workloads and pods, and it queries no server of Rollcall. Its result is therefore correct even if
// the manager does not run.
//
// A rank is in one of six states ([lifecycle.RankState]). A thousand ranks must fit on a screen. The grid has
// one character for each rank. Equal rows of the grid, and ranks that are not ready for the same
// reason, are printed once as ranges of ranks.
//
// Reading needs a client. Printing is pure: it maps a Gang and [PrintOptions] to text.
package inspect
