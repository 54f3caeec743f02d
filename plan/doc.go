// Package plan describes what an injector adds to a workload.
//
// # The idea
//
// An injector never changes an object. It returns a [Plan]: variables, labels, volumes and child objects as plain
// data. The engine (package injectors) applies the plan by one set of rules:
//
//   - Applying a plan twice has the same result as applying it once.
//   - The engine changes or removes only values that it has set. Other webhooks can add values to the same
//     containers and volumes.
//   - The engine never overrides a value of the user silently. The [ConflictPolicy] of a planned value determines
//     what the user sees if the values differ. [Meaning] determines which texts are the same value.
//   - A value must not be planned twice, and not if every gang has it, such as ROLLCALL_RANK.
package plan
