// Package injection applies plans to workloads, and records what it has injected.
//
// # The idea
//
// [Apply] compares the plan, the object, and the [Record] of an earlier admission, as kubectl apply does. Each
// planned value is compared with the value in the object. The table outcomes in decision.go decides what happens,
// for variables, labels, mounts, resources and fields alike:
//
//   - A value is written if the object does not have it, or if Rollcall has written it and nobody has edited it.
//   - A value of the user stays silently if it is the planned value, or another text with the same meaning.
//   - Any other value of the user stays if the policy is not Required: with a warning of admission (Warn), with a
//     suggestion that only rollcall vet shows (Suggest), or silently (KeepUser).
//   - In the place of a Required value, a port or a number of processes that no annotation contains is adopted: the
//     gang is planned again with it (see [Adopt]). A value that only the cluster knows, or that contains the index of
//     the pod, stays with a warning. Any other value is denied, with its path and the fix.
//
// A workload has at most 20 denials of variables, and 20 warnings and suggestions.
//
// A kind of values is a row of the table targets in target.go, which reads and removes them. Values of Rollcall
// that the plan does not contain are removed.
//
// Variables are appended, which keeps patches small. If a value of the user refers to one of them by $(NAME),
// they come first, because the kubelet expands only earlier variables.
//
// [PreserveAdmitted] keeps the injection of a StatefulSet while the user's inputs are the same. [Diff]
// converts the change of an object to a JSON patch that keeps fields unknown to the Go types.
package injection
