// Package installation runs Rollcall's own program beside a test's cluster, installed as the chart would install it.
//
// # The idea
//
// Without real nodes there is nothing to run the manager in, so it is a process of this machine, and the webhook
// configurations call it by URL. All else is the chart's: the scope of the webhooks, and the ServiceAccount and its
// rights, as which the manager calls the API server. A right that is missing in the chart is so missing here, requests
// are queued as those of any tenant, and an audit log tells Rollcall's from the test's.
//
//	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok})
//	m := installation.New(t, c)
//
// The manager ends with the test. [Render] and [One] are for tests of the chart itself.
package installation
