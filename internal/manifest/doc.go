// Package manifest reads and writes files of Kubernetes manifests: several documents in a file, YAML
// or JSON, lists, and comments.
//
// # The idea
//
// The commands of rollcall are filters in front of kubectl, so an object that is not a gang must
// leave them as it entered. A [Document] therefore keeps its text and returns the same text until one
// of its objects changes. A changed document keeps all fields, including fields that this build does
// not know: a change is a patch of the document's own tree, never a conversion to Go types and back.
package manifest
