// Package podgroup requests that a gang scheduler places all pods of a gang together.
//
// # The idea
//
// The former systems created a PodGroup for each running job. A gang of plain Jobs does not need a
// controller for that: one PodGroup, and a label or an annotation on each pod, can be written when
// the gang is migrated. Both supported schedulers accept pods of any owner.
package podgroup
