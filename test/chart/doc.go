// Package chart tests the Helm chart without a cluster. It renders the chart with many values: every value
// must have an effect, contradictions must be rejected, and the values files in the folder ci must be valid.
package chart
