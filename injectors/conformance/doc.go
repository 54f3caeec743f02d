// Package conformance tests an injector against the rules for all injectors.
//
// # The idea
//
// [RunSuite] plans and injects Jobs and StatefulSets of every role and several sizes. A second injection changes
// nothing. An injection removes nothing. A value of the user takes precedence, or is rejected with its path. Init
// containers get the variables as well. An injector in another module runs the same suite.
package conformance
