// Package installation runs Rollcall's manager for a cluster of a test, with the objects of the
// chart.
//
// # The idea
//
// Without real nodes, the manager cannot run in a pod. It runs as a process of this machine, and
// the webhook configurations call it by URL. Everything else comes from the chart: the scope of the
// webhooks, and the ServiceAccount with its permissions, which the manager uses to call the API
// server. So a permission that is missing in the chart is missing in the test, API priority and
// fairness applies to the manager as to any client, and an audit log distinguishes the manager from
// the test.
//
//	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok})
//	m := installation.New(t, c)
//
// The manager stops at the end of the test. [Render] and [SingleObject] are for tests of the chart
// itself.
package installation
