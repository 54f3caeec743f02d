// Package certs gives the webhook server a certificate that the API servers trust, and keeps it that way, with nothing
// else installed in the cluster.
//
// # The idea
//
// An API server calls a webhook by TLS and believes only the CAs in that webhook's clientConfig.caBundle. So there are
// two halves which have to agree at every moment: the certificate that we serve, and the bundle that the API servers
// read. Most of the outages that this field knows come from changing the two in the wrong order. Here:
//
//   - One CA, in one Secret, shared by all replicas. Whoever comes first makes it; it is made anew when two thirds of
//     its life are over, and at once when it is deleted or damaged. This is cert-manager's DynamicAuthority.
//   - One serving certificate for each replica, signed by that CA and held in memory only: cert-manager's
//     DynamicSource. There is no file to mount, and so no wait for the kubelet to update one.
//   - The keeper watches the CA and the webhook configurations, and sees to it that each caBundle holds the present CA
//     and, until they expire, the former ones. The bundle in the cluster is itself the memory of the former CAs: a
//     replica that starts knows no less than one which ran all along. It writes by server-side apply that one field,
//     only when the field has to change, and leaves all the rest to whoever installed the configuration.
//   - A certificate of a new CA is served only after that CA has been seen in every caBundle, and a while has passed in
//     which each API server can have seen it too. Until then the old certificate, which the old CA in the bundle still
//     vouches for, goes on serving. So a rotation has no moment at which a call can fail.
//
// No leader is needed. All replicas do the same, and a write by one is what the others would have written.
//
// # Ready and alive
//
// [Source.Ready] is about certificates: one is loaded, the live webhook configurations trust it, and our own listener
// answers with it. Liveness must have nothing to do with them: a restart repairs no certificate, and an API server that
// cannot be reached for a while must not end processes that still answer.
//
// # What is left behind
//
// The Secret is made at run time, so what installed Rollcall does not know of it. The ServiceAccount that this process
// runs as is made its owner (package owner), and with that account it goes.
package certs
