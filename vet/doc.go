// Package vet says what is wrong or unwise in labelled workloads before anything is
// applied.
//
// # The idea
//
// The webhook sees one workload at a time, and refuses only what cannot work. A person
// who reads a manifest sees more: that nothing keeps the checkpoints of a gang that is
// restarted, that the flags of torchrun contradict what will be injected, that one of
// three members has other sizes than the rest. Package vet is that reader. [Run] gives
// the documents of one input to each [Check] of [Checks], and returns what they found.
//
// A check sees a workload as it is written, as it would be admitted, as the gang that it
// is read as, and the other objects of the same input. It speaks up when it is sure;
// where a program could do the right thing by itself, it is silent. The cluster's own
// state is not known here, so nothing is said of what may be there already.
//
// Each check has a [Code]. Codes are for people to search and for machines to filter:
// they are never renamed, and never used again for something else.
//
// # Severity
//
// An [Error] will be refused, or cannot work. A [Warning] will most likely not do what
// its writer means. [Advice] works, and costs something that is easily had cheaper.
package vet
