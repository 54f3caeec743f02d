// Package e2e tries Rollcall as its users have it: on a real node, installed by
// Helm, with training programs that meet over the pod network.
//
// # The idea
//
// One cluster serves all tests; TestMain starts it, builds the manager's image and
// installs the chart. What a test asserts is what a user would look at: the ranks'
// output, the gang's phase, what is left afterwards. Without root there is no real
// node, and the tests are skipped with that reason.
package e2e
