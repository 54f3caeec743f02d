// Package installation runs Rollcall's webhook and controller for a cluster of a test, with the
// objects of the chart.
//
// # The idea
//
// Without real nodes, the webhook and the controller cannot run in pods. They run as processes of this
// machine, and the webhook configurations call the webhook by URL. Everything else comes from the chart:
// the arguments of the processes, the scope of the webhooks, and the ServiceAccounts with their
// permissions, which the processes use to call the API server. So a permission that is missing in the
// chart is missing in the test, API priority and fairness applies to the processes as to any client, and
// an audit log distinguishes them from the test.
//
//	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok})
//	m := installation.New(t, c)
//
// Both processes stop at the end of the test. [Render] and [SingleObject] are for tests of the chart
// itself.
package installation
