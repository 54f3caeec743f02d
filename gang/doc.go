// Package gang reads a labelled Kubernetes workload as a gang: a set of pods
// that compute one thing together, start together and end together.
//
// # The idea
//
// A user writes a plain batch/v1 Job or apps/v1 StatefulSet and one label,
//
//	metadata:
//	  name: train
//	  labels:
//	    rollcall.training/framework: pytorch
//
// and everything else about the gang follows from the workload itself: its name
// gives the gang's name, its parallelism or replicas the number of ranks, its
// containers the processes a rank runs. Further labels and annotations under
// [Prefix] adjust what cannot be derived. [Parse] turns the text into a [Gang],
// a plain value that says who the ranks are and where they meet, or into a
// field.ErrorList that says, for every mistake at once, which field holds which
// value, what is allowed and what to do.
//
// The package decides nothing about a framework's variables; that is the work of
// the packages below injectors, which read a Gang and answer with a plan.Plan.
//
// # Purity
//
// Parse has no client, no clock, no random source and no memory. The webhook,
// the command line and the reconciler call it with the same object and get the
// same Gang, on every replica and in dry-run. Ranks are therefore never handed
// out here: each pod learns its own from the index label that Kubernetes puts on
// it (see [Workload.IndexLabel]).
package gang
