// Package golden tests every front end with the same golden cases: the engine, the webhook and the command line.
//
// A golden case is a manifest NAME.yaml in a testdata directory below package injectors. The file NAME.golden next
// to it contains the expected warnings, denials and object, without the record of the injection. A manifest without
// a golden file is an error, and vice versa. The following command rewrites the golden files and the generated
// pages:
//
//	make golden
//
// A person must review the changes before a commit. CI rejects the command.
package golden
