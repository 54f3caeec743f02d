// Package recording writes down what an operator makes of a manifest.
//
// Whoever moves a PyTorchJob, an MPIJob or a TrainJob to plain Jobs wants to
// know that each rank still sees the environment that the operator gave it.
// The operator's own code is the only witness that cannot be mistaken, so the
// programs beside this package run it, on objects in memory, and keep what it
// made as a file next to the manifest: a recording. Tests of the migration read
// recordings and never need the operator.
//
// A recording holds what a training program or a person can see: pods with
// their containers and variables in order, Jobs, Services, ConfigMaps, and which
// keys a Secret has. Nothing in it depends on chance or time, so a recording
// that differs from its file is stale, and Main says so.
//
// Each program lives in a module of its own, because operators pin versions of
// the Kubernetes libraries that exclude one another. This module asks for the
// oldest of them; every program raises them to what its operator needs.
package recording
