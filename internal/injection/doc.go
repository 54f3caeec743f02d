// Package injection applies plans to workloads, and records what it has injected.
//
// # The idea
//
// [Apply] compares the plan, the object, and the [Record] of an earlier admission, as kubectl apply does. Each
// planned value is compared with the value in the object. The table outcomes in decision.go decides what happens,
// for variables, labels, mounts, resources and fields alike:
//
//	value in the object                    Required  Warn    Suggest  KeepUser
//	none, or written by Rollcall           write     write   write    write
//	the same, or another text for it       keep      keep    keep     keep
//	port or processes without annotation   adopt     warn    suggest  keep
//	known only to the cluster or the pod   warn      warn    suggest  keep
//	any other                              deny      warn    suggest  keep
//
// To keep, to suggest and to warn is to keep the value of the user. Admission shows a warning, and only rollcall
// vet shows a suggestion. A denial has the path and the fix. To adopt is to plan the gang again with the setting
// (see [Adopt]). A workload has at most 20 denials of variables, and 20 warnings and suggestions.
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
