// Package plan holds what an injector wants of a workload, and the one applier
// that brings it about.
//
// # The idea
//
// An injector never touches an object. It answers with a [Plan]: variables,
// labels, volumes, children, all plain data. [Apply] compares three things, much
// as kubectl apply does: what the plan wants, what the object holds, and what an
// earlier admission recorded as its own (see [Record]). So the rules that make an
// injector trustworthy are written, and proven, once:
//
//   - Applying twice changes nothing the second time.
//   - Nothing is altered or removed but what Rollcall itself put there.
//   - A user's value is never overridden in silence. For a variable of the gang's
//     identity (see [Own]) a different value is an error with its path and the
//     fix; for a tunable (see [Default]) it wins, with a warning.
//   - Variables are appended, which keeps patches small, except where a value of
//     the user's refers to one of ours by $(NAME): the kubelet expands only what
//     stands earlier, so there ours come first.
//
// [Stick] holds a StatefulSet to what it was admitted with while its user's inputs
// stay the same. [Diff] turns the two states of an object into a JSON patch that
// leaves alone what our types do not know.
package plan
