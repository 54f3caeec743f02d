// Package webhook adapts the injection engine to admission webhooks.
//
// # The idea
//
// The package serves three endpoints, and two more with a policy:
//
//   - [Mutator] responds with the patch that turns a labeled workload into a member of its gang. It
//     denies an invalid workload with HTTP code 422 and a list of all mistakes.
//   - [Validator] runs after all mutating webhooks, and denies a workload whose injection was changed.
//     It also warns the user of an existing Job about changes that have no effect.
//   - [PodRankHandler] sets the rank label of a pod. Only API servers without
//     MutatingAdmissionPolicy need this endpoint.
//   - [Validator.JudgeJobUpdate] denies an update of a Job that makes a violation of the policy worse.
//   - The handler in [Options].PolicyFile validates the policy itself (internal/policy/configmap).
//
// The webhook configurations (charts/rollcall) select the objects with objectSelector and
// namespaceSelector. The API server never sends an object without the label, so an unavailable
// Rollcall does not block other workloads.
//
// Without a policy, every response depends only on the request, and on the APIs that the cluster serves if
// the gang names a scheduler or a queue. With a policy, it also depends on the
// policy, the labels of the namespace and the time, because exemptions expire. A dry run is therefore
// exact, and every replica with the same policy gives the same response.
package webhook
