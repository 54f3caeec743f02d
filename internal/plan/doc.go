// Package plan describes what an injector adds to a workload, and applies it.
//
// # The idea
//
// An injector never changes an object. It returns a [Plan]: variables, labels, volumes and child
// objects as plain data. [Apply] compares the plan, the object, and the [Record] of an earlier
// admission, as kubectl apply does. The rules of injection are therefore implemented and tested
// once:
//
//   - Applying a plan twice has the same result as applying it once.
//   - Rollcall changes or removes only values that Rollcall has set. Other webhooks can add values to
//     the same containers and volumes (docs/adr/0031).
//   - Rollcall never overrides a value of the user silently. A different value is an error with its
//     path and the fix if the gang needs the planned value (see [Required]). Otherwise the user's
//     value is kept with a warning (see [Default]).
//   - Variables are appended, which keeps patches small. If a value of the user refers to one of them
//     by $(NAME), they come first, because the kubelet expands only earlier variables.
//
// [PreserveAdmitted] keeps the injection of a StatefulSet while the user's inputs are the same. [Diff]
// converts the change of an object to a JSON patch that keeps fields unknown to the Go types.
package plan
