// Package e2e tests Rollcall as users run it: on a real node, installed by Helm, with training
// programs that communicate over the pod network.
//
// # The idea
//
// One cluster serves all tests. TestMain starts the cluster, builds the image of the manager and
// installs the chart. The tests assert on what users see: the output of the ranks, the phase of the
// gang, and the remaining objects. A real node needs root. Without root, the tests are skipped with
// that reason.
package e2e
