// Package charts contains files of the Helm chart that programs read too.
package charts

import _ "embed" // for the files

// GangRules is the YAML of the permissions of the controller in the namespaces of gangs. The template of the RBAC
// objects reads the same file.
//
//go:embed rollcall/files/gang-rules.yaml
var GangRules []byte
