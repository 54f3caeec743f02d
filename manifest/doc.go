// Package manifest reads and writes Kubernetes manifests as people keep them:
// several documents in a file, YAML or JSON, lists, comments.
//
// # The idea
//
// A manifest passes through Rollcall's command line on its way to kubectl, so
// what is not a gang must come out as it went in. A [Document] therefore keeps
// its text, and gives that same text back until one of its objects is changed.
// A changed document keeps all its fields, those that this build does not know
// included: changes are patches on the text's own tree, never a round trip
// through Go types.
package manifest
