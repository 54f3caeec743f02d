// Package soak measures whether admission fails while Rollcall and the control plane are disturbed.
//
// # The idea
//
// A client creates Jobs and StatefulSets and updates both, 20 times per second, with the timeout of the
// chart. Meanwhile, the disturbances of [TestSoak] follow each other: Deployments are rolled, pods of
// Rollcall are evicted as in a drain, the Lease is stolen, the leader is killed by its memory limit, the
// API server restarts, and DNS is slow. All the time, the CA rotates every 60 s and the serving
// certificates every 20 s. No call may fail, and no workload may be admitted without injection.
//
// The calls are dry runs, so that the cluster does not fill up. The API server calls the webhooks of a
// dry run in the same way.
//
// # What counts
//
// While the API server itself restarts, it cannot answer a call. A call in that time counts only if it
// succeeded or if a webhook failed. All other calls in that time are reported separately: those without
// an answer, and those that an API server rejected because it was not ready. At any other time, every
// call counts.
//
// # How to run it
//
//	make soak
//	make soak SOAK=2m
//
// # Limits
//
// The real node is the only one of its cluster. A drain is therefore the eviction of all pods of
// Rollcall, one after the other, without a cordon. Slow DNS is a DNS server that is stopped for some
// seconds. The API server finds webhooks without DNS, so only the programs of Rollcall could notice.
package soak
