// Package podgroup asks a gang scheduler to place all pods of a gang at once.
//
// # The idea
//
// The former systems made a PodGroup for each job while it ran. A gang of plain Jobs
// needs no controller for that: one PodGroup beside them, and a mark on each pod
// that it belongs to it, are data, and can be written down when the gang is
// migrated. Both schedulers that the systems know understand pods of any owner.
package podgroup
