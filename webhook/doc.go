// Package webhook puts the engine behind the API server's admission calls.
//
// # The idea
//
// Two endpoints share one engine. [Mutator] answers with the patch that makes a
// labelled workload a member of its gang, with warnings, or with a denial of HTTP
// 422 that names every mistake. [Validator] looks at the end of admission, after
// all other webhooks, that nobody took the injection away again, and tells the
// user of an existing Job that a label comes too late. A third endpoint has no need
// of the engine: [Ranker] adds a pod's index and its workload's offset, where API
// servers cannot do that by themselves.
//
// Which objects reach them is not decided here: objectSelector and
// namespaceSelector are part of the webhook configurations (charts/rollcall), so
// that an object without the label is never sent, and a Rollcall that is down
// blocks nobody else.
//
// All are pure: a call reads its request and nothing else, so a dry run is
// exact, and any replica gives the same answer.
package webhook
