// Package gang parses a labeled Kubernetes workload as a gang: a set of pods that run one
// computation together.
//
// # The idea
//
// A user writes a plain batch/v1 Job or apps/v1 StatefulSet and one label:
//
//	metadata:
//	  name: train
//	  labels:
//	    rollcall.training/framework: pytorch
//
// Everything else follows from the workload itself. The name of the workload gives the name of the
// gang, parallelism or replicas the number of ranks, and the containers the number of processes of
// a rank. More labels and annotations under [Prefix] adjust what cannot be derived.
//
// [Parse] returns a [Gang], a plain value with the ranks and their addresses. For an invalid
// workload it returns a field.ErrorList with all mistakes: the path and the value of the field, the
// rule, and the fix.
//
// A gang of several workloads has the same name in each of them, see [ResolveName].
//
// The package does not know the variables that frameworks set. The packages below injectors translate a
// Gang into a plan.Plan, and list the programs that launch processes. The package knows what determines sizes and
// addresses in a manifest of a user: the implementations of MPI, and the spellings of an address.
//
// # Purity
//
// Parse has no client, no clock, no random source and no state. The webhook, the command line and
// the reconciler get the same Gang for the same object, on every replica and in a dry run. Ranks
// are therefore not assigned here. Each pod reads its rank from the index label that Kubernetes
// sets (see [Workload.IndexLabel]).
package gang
