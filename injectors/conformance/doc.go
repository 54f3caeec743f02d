// Package conformance tests every injector and every front end against the same rules.
//
// # The idea
//
// [RunGoldenCases] tests a front end: the engine, the webhook, or the command line. A golden case
// is a manifest NAME.yaml in a testdata directory. The file NAME.golden next to it contains the
// expected warnings, denials and object. A manifest without a golden file is an error, and vice
// versa. The following command rewrites the golden files and the generated pages:
//
//	make golden
//
// A person must review the changes before a commit. CI rejects the command.
//
// [RunSuite] tests an injector. A second injection changes nothing. An injection removes nothing. A value
// of the user takes precedence, or is rejected with its path. Init containers get the variables as well.
package conformance
