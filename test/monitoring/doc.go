// Package monitoring tests the alerts of the chart with promtool, without a cluster.
//
// # The idea
//
// testdata/alerts.yaml contains series of metrics, and the alerts that fire for them. Every alert has a case
// in which it fires, and a case in which it must not fire.
package monitoring
