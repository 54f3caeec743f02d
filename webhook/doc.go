// Package webhook adapts the injection engine to admission webhooks.
//
// # The idea
//
// The package serves three endpoints:
//
//   - [Mutator] responds with the patch that turns a labeled workload into a member of its gang. It
//     denies an invalid workload with HTTP code 422 and a list of all mistakes.
//   - [Validator] runs after all mutating webhooks, and denies a workload whose injection was changed.
//     It also warns the user of an existing Job about changes that have no effect.
//   - [PodRankHandler] sets the rank label of a pod. Only API servers without
//     MutatingAdmissionPolicy need this endpoint.
//
// The webhook configurations (charts/rollcall) select the objects with objectSelector and
// namespaceSelector. The API server never sends an object without the label, so an unavailable
// Rollcall does not block other workloads.
//
// Every response depends only on the request. A dry run is therefore exact, and every replica gives
// the same response.
package webhook
